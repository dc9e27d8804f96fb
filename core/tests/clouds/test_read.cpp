// Files: the suffix chooses the format, and errors begin with the path.
#include <chrono>
#include <cstdio>

#include "cloud_checks.h"

using namespace bipointnet;
using namespace bipointnet::clouds;

namespace {

void the_suffix_chooses_the_format(const Folder& folder) {
  const Floats expected = {1, 2, 3, 4, 5, 6};
  for (const char* name : {"a.xyz", "b.txt", "c.csv", "d.pts", "E.XYZ", "f.ply.xyz", "g.asc"}) {
    CHECK(read_cloud(folder.write(name, "1 2 3\n4 5 6\n")).points == expected);
  }
  for (const char* name : {"a.f32", "c.raw"}) {
    CHECK(read_cloud(folder.write(name, float32_bytes(expected))).points == expected);
  }
  for (const char* name : {"a.doc", "a", "a.", ".d/a", "xyz"}) {
    const std::string error = error_of([&] { read_cloud(folder.path(name)); });
    CHECK(error.find(": the suffix '") != std::string::npos);
    CHECK(error.find("expected one of " + cloud_suffixes()) != std::string::npos);
  }
}

void errors_begin_with_the_path(const Folder& folder) {
  const auto error = [](const std::string& path) { return error_of([&] { read_cloud(path); }); };
  CHECK_ERROR(error(folder.path("none.xyz")), folder.path("none.xyz") + ": cannot open the file (");
  CHECK_ERROR(error(folder.write("bad.xyz", "1 2 3\n4 5\n")), folder.path("bad.xyz") + ": line 2: 2 columns");
  CHECK_ERROR(error(folder.write("empty.ply", "")), "empty.ply: an empty file, expected a cloud");
  std::filesystem::create_directory(folder.path("folder.xyz"));
  CHECK_ERROR(error(folder.path("folder.xyz")), "folder.xyz: cannot ");
}

void columns_are_for_files_that_do_not_name_them() {
  const ReadOptions options{{"x", "y", "z"}, false};
  for (const char* name : {"a.ply", "a.pcd", "a.las", "a.off", "a.obj", "a.stl", "a.ptx"}) {
    CHECK_ERROR(error_of("1 2 3", name, options),
                "--columns for the suffix '" + std::string(name).substr(1) + "', expected none");
  }
  CHECK_EQUAL(error_of("1 2 3", "a.txt", options), "");
}

// Larger than a buffer, so that no part of a file is lost or read twice.
void large_files_come_back(const Folder& folder) {
  Floats expected;
  for (int i = 0; i < 60000; ++i) expected.push_back(static_cast<float>(i) / 8);
  CHECK(read_cloud(folder.write("large.f32", float32_bytes(expected))).points == expected);
}

// Larger than a buffer, so that no part of a file is lost or read twice. The speed is printed, not checked.
void large_text_comes_back(const Folder& folder) {
  Floats expected;
  std::string text;
  for (int i = 0; i < 600000; ++i) {
    expected.push_back(static_cast<float>(i) / 8);
    text += std::to_string(i / 8) + "." + std::to_string(1000 + 125 * (i % 8)).substr(1) + (i % 3 == 2 ? "\n" : " ");
  }
  const std::string path = folder.write("large.xyz", text);
  const auto start = std::chrono::steady_clock::now();
  const Cloud cloud = read_cloud(path);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(cloud.points == expected);
  std::cerr << "text: " << static_cast<double>(text.size()) / seconds.count() / 1e6 << " MB/s\n";
}

// Standard input is read from where it is to its end, so a second time it is empty.
void standard_input_may_be_partly_read(const Folder& folder) {
  const std::string path = folder.write("rest.txt", "7 8 9\n1 2 3\n4 5 6\n");
  CHECK(std::freopen(path.c_str(), "rb", stdin) != nullptr);
  std::fseek(stdin, 6, SEEK_SET);
  CHECK((read_cloud("-").points == Floats{1, 2, 3, 4, 5, 6}));
  CHECK_ERROR(error_of([] { read_cloud("-"); }), "standard input: an empty file, expected a cloud");
}

}  // namespace

int main() {
  const Folder folder;
  the_suffix_chooses_the_format(folder);
  errors_begin_with_the_path(folder);
  columns_are_for_files_that_do_not_name_them();
  large_files_come_back(folder);
  large_text_comes_back(folder);
  standard_input_may_be_partly_read(folder);
  return check_report();
}
