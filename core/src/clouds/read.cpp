#include "clouds/read.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>

#include "clouds/finish.h"
#include "clouds/formats.h"
#include "clouds/lines.h"

namespace bipointnet::clouds {
namespace {

struct Format {
  const char* suffix;
  Parsed (*parse)(std::string_view, const Source&);
  bool takes_columns = false;  // --columns: files that do not name their columns
};

constexpr Format kFormats[] = {{".ply", parse_ply},           {".pcd", parse_pcd},
                               {".las", parse_las},           {".off", parse_off},
                               {".obj", parse_obj},           {".stl", parse_stl},
                               {".xyz", parse_text, true},    {".txt", parse_text, true},
                               {".csv", parse_text, true},    {".pts", parse_text, true},
                               {".asc", parse_text, true},    {".xyzn", parse_text, true},
                               {".xyzrgb", parse_text, true}, {".ptx", parse_ptx},
                               {".npy", parse_npy, true},     {".bin", parse_floats, true},
                               {".f32", parse_floats, true},  {".raw", parse_floats, true}};

Source source_of(const std::string& path, const ReadOptions& options) {
  const std::string name = lowered(std::string_view(path).substr(path.find_last_of('/') + 1));
  const std::size_t dot = name.find_last_of('.');
  return {name, dot == std::string::npos ? "" : name.substr(dot), options.columns};
}

const Format& format_of(const Source& source) {
  for (const Format& format : kFormats) {
    if (source.suffix == format.suffix) return format;
  }
  refuse("", "the suffix " + excerpt(source.suffix), "one of " + cloud_suffixes());
}

// From where the file is: another program may have read the first lines of standard input.
std::string read_all(std::FILE* file) {
  std::string bytes;
  const long start = std::ftell(file);
  if (start >= 0 && std::fseek(file, 0, SEEK_END) == 0) {  // a pipe has no end to seek
    const long end = std::ftell(file);
    if (end > start && end < LONG_MAX) bytes.reserve(static_cast<std::size_t>(end - start));  // LONG_MAX: a folder
    std::fseek(file, start, SEEK_SET);
  }
  errno = 0;
  char part[65536];
  while (const std::size_t count = std::fread(part, 1, sizeof part, file)) bytes.append(part, count);
  if (std::ferror(file)) refuse("", std::string("cannot read the file (") + std::strerror(errno) + ")", "a cloud");
  return bytes;
}

std::string read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) refuse("", std::string("cannot open the file (") + std::strerror(errno) + ")", "a file with a cloud");
  return read_all(file.get());
}

Cloud parsed_cloud(std::string_view bytes, const Source& source, bool strict) {
  const Format& format = format_of(source);
  if (!source.columns.empty() && !format.takes_columns) {
    refuse("", "--columns for the suffix " + excerpt(source.suffix), "none, as such a file names its columns");
  }
  if (bytes.empty()) refuse("", "an empty file", "a cloud; copy it again from its source");
  return finish(format.parse(bytes, source), strict);
}

}  // namespace

const std::string& cloud_suffixes() {
  static const std::string all = [] {
    std::string text;
    for (const Format& format : kFormats) text += (text.empty() ? "" : " ") + std::string(format.suffix);
    return text;
  }();
  return all;
}

Cloud read_cloud_bytes(std::string_view bytes, const std::string& name, const ReadOptions& options) {
  try {
    return parsed_cloud(bytes, source_of(name, options), options.strict);
  } catch (const CloudError& error) {
    throw CloudError(name + ": " + error.what());
  }
}

Cloud read_cloud(const std::string& path, const ReadOptions& options) {
  try {
    if (path == "-") return parsed_cloud(read_all(stdin), {"", ".txt", options.columns}, options.strict);
    const Source source = source_of(path, options);
    format_of(source);  // before a file that cannot be parsed is read
    return parsed_cloud(read_file(path), source, options.strict);
  } catch (const CloudError& error) {
    throw CloudError((path == "-" ? "standard input" : path) + ": " + error.what());
  }
}

}  // namespace bipointnet::clouds
