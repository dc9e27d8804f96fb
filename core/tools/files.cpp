#include "files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "clouds/lines.h"
#include "clouds/read.h"
#include "options.h"

namespace bipointnet::tool {
namespace {

namespace fs = std::filesystem;

bool has_known_suffix(const fs::path& path) {
  const std::string suffix = clouds::lowered(path.extension().string());
  return !suffix.empty() && (" " + clouds::cloud_suffixes() + " ").find(" " + suffix + " ") != std::string::npos;
}

}  // namespace

std::vector<std::string> files_in(const std::string& name) {
  std::error_code error;
  if (name == "-" || !fs::is_directory(name, error)) return {name};
  std::vector<fs::path> files;
  std::set<fs::path> seen = {fs::canonical(name, error)};
  fs::recursive_directory_iterator each(name, fs::directory_options::follow_directory_symlink, error);
  for (; !error && each != fs::recursive_directory_iterator(); each.increment(error)) {
    std::error_code ignored;
    const bool hidden = each->path().filename().string()[0] == '.';
    if (each->is_directory(ignored)) {
      if (hidden || !seen.insert(fs::canonical(each->path(), ignored)).second) each.disable_recursion_pending();
    } else if (!hidden && each->is_regular_file(ignored) && has_known_suffix(each->path())) {
      files.push_back(each->path());
    }
  }
  if (error) throw Error(name + ": cannot read the folder (" + error.message() + "); check its permissions");
  if (files.empty()) {
    throw Error(name + ": a folder without clouds, expected files with one of the suffixes " +
                clouds::cloud_suffixes());
  }
  std::sort(files.begin(), files.end());  // by their parts
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.string());
  return names;
}

std::string shown(const std::string& file) { return file == "-" ? "standard input" : file; }

bool same_file(const std::string& one, const std::string& other) {
  std::error_code error;
  return fs::equivalent(one, other, error) && !error;
}

}  // namespace bipointnet::tool
