// The fuzz target of cloud files (clang's libFuzzer): any bytes give a sound cloud or a CloudError of one sentence. The
// first byte of an input chooses the name of the file, the second the options. Mutations begin with the small files
// below as often as with the corpus, so that every format is reached at once.
#include <cstdlib>
#include <cstring>

#include "clouds/cloud_checks.h"

namespace {

using namespace bipointnet;
using namespace bipointnet::clouds;

constexpr const char* kNames[] = {"a.txt", "a.csv", "a.pts", "a.xyzn", "a.ptx", "a.npy", "a.bin", "000001.bin",
                                  "a.f32", "a.las", "a.ply", "a.pcd",  "a.off", "a.obj", "a.stl", "a.pcd.bin"};
constexpr std::size_t kNameCount = sizeof kNames / sizeof *kNames;

struct Seed {
  const char* name;
  std::string bytes;
};

std::string npy(const std::string& type, const std::string& shape, const std::string& body) {
  const std::string header = "{'descr': " + type + ", 'fortran_order': False, 'shape': " + shape + ", }\n";
  return BinaryWriter().text("\x93NUMPY\1").integer(1, 0).integer(2, static_cast<std::int64_t>(header.size())).bytes() +
         header + body;
}

std::string las(int minor, int format, std::size_t record_size) {
  const std::size_t header_size = minor == 4 ? 375 : 227;
  BinaryWriter file;
  file.text("LASF" + std::string(20, '\0')).integer(1, 1).integer(1, minor).text(std::string(68, '\0'));
  file.integer(2, static_cast<std::int64_t>(header_size))
      .integer(4, static_cast<std::int64_t>(header_size))
      .integer(4, 0);
  file.integer(1, format).integer(2, static_cast<std::int64_t>(record_size)).integer(4, 2).text(std::string(20, '\0'));
  for (int i = 0; i < 6; ++i) file.f64(0.5);
  file.text(std::string(header_size - file.bytes().size(), '\0'));
  for (std::size_t i = 0; i < 2 * record_size; ++i) file.integer(1, static_cast<std::int64_t>(i));
  return file.bytes();
}

std::vector<Seed> seeds() {
  const std::string floats = float32_bytes({1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 0, 1, 3, 2, 1, 5, 4, 4, 3, 2});
  const std::string pose = "0 0 0\n1 0 0\n0 1 0\n0 0 1\n", matrix = "0 1 0 0\n-1 0 0 0\n0 0 1 0\n10 20 30 1\n";
  const std::string vertices = "property float x\nproperty float y\nproperty float z\n";
  const std::string faces = "element face 1\nproperty list uchar int vertex_indices\n";
  const std::string fields = "FIELDS x y z rgb\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH 2\nHEIGHT 1\n";
  const std::string pcd = "# .PCD v0.7\nVERSION 0.7\n" + fields + "VIEWPOINT 0 0 0 1 0 0 0\nPOINTS 2\nDATA ";
  const std::string face = BinaryWriter().integer(1, 3).integer(4, 0).integer(4, 1).integer(4, 2).bytes();
  // LZF: two runs of literals.
  const std::string packed =
      BinaryWriter().integer(4, 33).integer(4, 32).integer(1, 31).text(floats.substr(0, 32)).bytes();
  return {
      {"a.txt", "1 2 3\n4 5.5 -6e-1\nnan 0 1\n"},
      {"a.txt", "# id x y z\n1 2 3 4\n2 5 6 7 # end\n"},
      {"a.txt", "X [m] Y [m] Z [m] R G B label\r\n1 2 3 255 0 0 wall\r\n4 5 6 0 255 0 floor\r\n"},
      {"a.csv", "\"X\",\"Y\",\"Z\",\"name\"\n1,2,3,\"a, b\"\n4,5,6,\n"},
      {"a.csv", "x;y;z\n1,5;2,5;3\n4;5;6;\n"},
      {"a.csv", "0,1,2\n0.5,0.5,0.5\n"},
      {"a.pts", "2\n1 2 3 -100 255 0 51\n4 5 6 7 8 9 10\n1\n1 2 3 4 5 6 7\n"},
      {"a.xyzn", "1 2 3 0 0.6 -0.8\n"},
      {"a.ptx", "2\n1\n" + pose + matrix + "1 2 3 0.5\n0 0 0 0.5\n1\n1\n" + pose + matrix + "4 5 6 1\n"},
      {"a.npy", npy("'<f4'", "(2, 4)", floats.substr(0, 32))},
      {"a.npy", npy("[('pos', '>f2', (3,)), ('w', [('a', '|u1'), ('b', '<i8')]), ('s', '<U1')]", "(2,)", floats)},
      {"a.bin", floats.substr(0, 24)},
      {"000001.bin", floats},
      {"a.pcd.bin", floats},
      {"a.f32", floats.substr(0, 36)},
      {"a.las", las(2, 3, 34)},
      {"a.las", las(4, 7, 40)},
      {"a.ply",
       "ply\nformat ascii 1.0\nelement vertex 3\n" + vertices + faces + "end_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"},
      {"a.ply", "ply\nformat binary_little_endian 1.0\nelement vertex 3\n" + vertices + faces + "end_header\n" +
                    floats.substr(0, 36) + face},
      {"a.pcd", pcd + "ascii\n1 2 3 4.2e06\nnan nan nan 0\n"},
      {"a.pcd", pcd + "binary\n" + floats.substr(0, 32)},
      {"a.pcd", pcd + "binary_compressed\n" + packed},
      {"a.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"},
      {"a.obj", "v 0 0 0\nv 1 0 0 0.5 0.5 0.5\nv 0 1 0\nvn 0 0 1\nf 1//1 2//1 -1//1\n"},
      {"a.stl",
       "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid "
       "a\n"},
      {"a.stl",
       std::string(80, ' ') + BinaryWriter().integer(4, 1).bytes() + floats.substr(0, 48) + std::string(2, '\0')},
  };
}

std::vector<std::string> inputs() {
  std::vector<std::string> all;
  for (const Seed& seed : seeds()) {
    for (std::size_t i = 0; i < kNameCount; ++i) {
      if (std::strcmp(kNames[i], seed.name) != 0) continue;
      all.push_back(std::string(1, static_cast<char>(i)) + std::string(1, '\0') + seed.bytes);
    }
  }
  return all;
}

ReadOptions options_of(unsigned choice) {
  ReadOptions options;
  options.strict = choice & 1;
  if (choice & 2) options.columns = {"x", "y", "z"};
  if (choice & 4) options.columns = {"-", "z", "y", "x", "intensity"};
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  try {
    check_sound(read_bytes(bytes, kNames[data[0] % kNameCount], options_of(data[1])), bytes.size());
  } catch (const CloudError& error) {
    CHECK_ERROR(error.what(), ", expected ");
  }
  if (check_counts().failures > 0) std::abort();
  return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned choice) {
  static const std::vector<std::string> all = inputs();
  const std::string& seed = all[choice / 2 % all.size()];
  if (choice % 2 == 0 && seed.size() <= most) {
    std::memcpy(data, seed.data(), seed.size());
    size = seed.size();
  }
  return LLVMFuzzerMutate(data, size, most);
}
