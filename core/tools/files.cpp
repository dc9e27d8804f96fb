#include "files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "clouds/read.h"
#include "options.h"

namespace bipointnet::tool {
namespace {

namespace fs = std::filesystem;

bool has_known_suffix(const fs::path& path) {
  std::string suffix = path.extension().string();
  for (char& c : suffix) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return !suffix.empty() && (" " + clouds::cloud_suffixes() + " ").find(" " + suffix + " ") != std::string::npos;
}

}  // namespace

std::vector<std::string> files_in(const std::string& name) {
  std::error_code error;
  if (name == "-" || !fs::is_directory(name, error)) return {name};
  std::vector<std::string> files;
  fs::recursive_directory_iterator each(name, fs::directory_options::skip_permission_denied, error);
  for (; !error && each != fs::recursive_directory_iterator(); each.increment(error)) {
    if (each->path().filename().string()[0] == '.') {
      each.disable_recursion_pending();
    } else if (std::error_code ignored; each->is_regular_file(ignored) && has_known_suffix(each->path())) {
      files.push_back(each->path().string());
    }
  }
  if (error) throw Error(name + ": cannot read the folder (" + error.message() + "); check its permissions");
  if (files.empty()) {
    throw Error(name + ": a folder without clouds, expected files with one of the suffixes " +
                clouds::cloud_suffixes());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool same_file(const std::string& one, const std::string& other) {
  std::error_code error;
  return fs::equivalent(one, other, error) && !error;
}

}  // namespace bipointnet::tool
