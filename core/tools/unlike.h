// Warnings for a cloud that is unlike the training data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bipointnet::tool {

// What is unusual about a cloud and its prediction, one clause per finding; the same clauses as those of
// bipointnet.evaluation.unlike.warnings, which explains them.
//   manifest     of the model; its facts about the training tell what is usual
//   extent       largest side of the cloud's bounding box
//   points       number of points in the file
//   probability  of the predicted class
std::vector<std::string> unlike_training(const std::string& manifest, double extent, std::size_t points,
                                         double probability);

}  // namespace bipointnet::tool
