// Labels every point of a cloud of any size: objects in samples, rooms and scans in blocks.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/model.h"

namespace bipointnet::scan {

// The number of points per cloud in training; 1024 if the manifest does not say.
std::size_t training_points(const Network& network);

// The classes that points of a category can have, ascending; all classes for category -1.
std::vector<std::size_t> accepted_classes(const Network& network, int category);

// The accepted class with the largest logit, the first of equals. logits: one per class of the model.
int best_class(const float* logits, const std::vector<std::size_t>& accepted);

// Writes the class of each of `count` points, as bipointnet.label does, for a model with logits per point.
//   xyz       finite coordinates; for a model with task semantic in meters, z up
//   features  those of the model's blocks, point by point, or NULL for a model without any
//   category  the category of the object, -1 for a model without categories
// Throws InputError.
void label(const Model& model, const float* xyz, const float* features, std::size_t count, int category,
           unsigned threads, int* labels);

}  // namespace bipointnet::scan
