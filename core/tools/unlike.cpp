#include "unlike.h"

#include <cstdarg>
#include <cstdio>
#include <optional>

#include "format/json.h"

namespace bipointnet::tool {
namespace {

constexpr double kExtentFactor = 3;
constexpr double kPointsFactor = 4;

std::optional<JsonValue> member(const std::optional<JsonValue>& value, const std::string& name) {
  if (!value) return std::nullopt;
  for (const auto& [key, found] : value->members()) {
    if (key == name) return found;
  }
  return std::nullopt;
}

std::optional<double> number(const std::optional<JsonValue>& value) {
  return value && value->kind() == JsonValue::Kind::number ? value->number() : std::nullopt;
}

// Text of a format of printf(), whose values are all double.
std::string formatted(const char* format, ...) {
  char text[160];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

}  // namespace

std::vector<std::string> unlike_training(const std::string& manifest, double extent, std::size_t points,
                                         double probability) {
  std::vector<std::string> found;
  const Json json(manifest, "manifest");
  const std::optional<JsonValue> training = member(json.root(), "training");
  const std::optional<JsonValue> sides = member(training, "extent");
  if (sides && sides->items().size() == 2) {
    const std::optional<double> least = number(sides->items()[0]), most = number(sides->items()[1]);
    if (least && most && extent == 0) {
      found.push_back("all points are in one place");
    } else if (least && most && !(*least / kExtentFactor <= extent && extent <= *most * kExtentFactor)) {
      found.push_back(formatted("its largest side is %.4g, in training %.4g to %.4g: wrong units?", extent, *least,
                                *most));
    }
  }
  const std::optional<double> usual = number(member(training, "points"));
  if (usual && static_cast<double>(points) * kPointsFactor <= *usual) {
    found.push_back("number of points " + std::to_string(points) +
                    formatted(", in training %.15g: too few to be sure", *usual));
  }
  const std::optional<double> confidence = number(member(training, "confidence"));
  if (confidence && probability < *confidence) {
    found.push_back(formatted("probability %.1f %%, 95 %% of the test clouds had %.1f %% or more: perhaps none of the classes",
                              100 * probability, 100 * *confidence));
  }
  return found;
}

}  // namespace bipointnet::tool
