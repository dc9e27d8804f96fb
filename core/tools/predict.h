// Predictions for files.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bipointnet.h"
#include "options.h"

namespace bipointnet::tool {

using Model = std::unique_ptr<bipointnet_model, void (*)(bipointnet_model*)>;

struct Guess {
  std::string label;
  double probability;
};

struct Count {
  std::string label;
  std::size_t points;
};

// What the tool says about one file.
struct Prediction {
  std::string file;
  std::string error;  // one sentence; if it is not empty, the rest is
  std::string task;
  std::size_t points = 0;             // that the network was given, or that were labeled
  std::vector<Guess> top;             // classify: the most probable first
  std::vector<Count> classes;         // part and semantic: the classes that occur, in the order of the model
  std::vector<std::string> written;   // files
  std::vector<std::string> warnings;
};

// Throws Error.
Model load_model(const std::string& path);

// The index of the category of the options, or -1 if the model has no category input. Throws Error.
int category_index(const bipointnet_model* model, const Options& options);

// A prediction for the cloud in a file. A user's mistake becomes its error.
Prediction predict_file(const bipointnet_model* model, const std::string& file, const Options& options);

// The points of a file as text, one line per point. Throws Error.
std::string dump_file(const std::string& file, const Options& options);

}  // namespace bipointnet::tool
