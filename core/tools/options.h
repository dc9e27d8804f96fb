// The command line of bipointnet-run.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "clouds/cloud.h"

namespace bipointnet::tool {

// A user's mistake, in one sentence.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string model;
  std::vector<std::string> files;  // files and folders, as the user named them
  std::string category;
  std::string labels;  // where to write the labels of points; empty: nowhere
  std::size_t top = 0;  // 0: as many as is usual
  unsigned threads = 1;
  clouds::ReadOptions reading;
  bool json = false, dump = false, help = false, version = false;

  std::size_t most_probable() const { return top > 0 ? top : json ? 3 : 1; }  // the number of classes to print
};

// Throws Error.
Options parse_options(const std::vector<std::string>& arguments);

std::string help_text();

}  // namespace bipointnet::tool
