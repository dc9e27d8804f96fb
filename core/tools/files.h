// The files that a user names.
#pragma once

#include <string>
#include <vector>

namespace bipointnet::tool {

// `name`, or the files with a known suffix in the folder `name` and its subfolders, sorted; hidden ones are left out,
// links are followed, and no folder is visited twice.
// Throws Error for a folder without such files.
std::vector<std::string> files_in(const std::string& name);

// The name of a file in a sentence: "-" is standard input.
std::string shown(const std::string& file);

// Whether both names lead to one existing file.
bool same_file(const std::string& one, const std::string& other);

}  // namespace bipointnet::tool
