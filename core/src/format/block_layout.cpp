#include "format/block_layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "format/fields.h"

namespace bipointnet {
namespace {

using Kind = BlockChannel::Kind;

constexpr double kLeastSide = 1.0 / 1024, kMostSide = 1024 * 1024;
constexpr std::pair<const char*, Kind> kPlaces[] = {{"x", Kind::x},           {"y", Kind::y},
                                                    {"z", Kind::z},           {"height", Kind::height},
                                                    {"x/size", Kind::share_x}, {"y/size", Kind::share_y},
                                                    {"z/size", Kind::share_z}};
constexpr const char* kColors[] = {"red", "green", "blue"};

BlockChannel read_name(const JsonValue& item, const std::string& what) {
  const std::string name = item.string();
  for (const auto& [known, kind] : kPlaces) {
    if (name == known) return {kind, name};
  }
  for (const char* color : kColors) {
    if (name == color) return {Kind::feature, name};
  }
  fail(what, item.describe(), "x, y, z, height, x/size, y/size, z/size, red, green, blue or an object");
}

BlockChannel read_field(const JsonValue& item, const std::string& what) {
  const Fields field(item, what);
  field.expect_keys({"field", "scale"});
  const std::string name = field.string("field");
  for (const auto& [known, kind] : kPlaces) {
    if (name == known) field.fail_at("field", "a name that is not a coordinate");
  }
  if (name.empty() || name.find('\0') != std::string::npos || std::count(kColors, kColors + 3, name) > 0) {
    field.fail_at("field", "the name of a column that is not a color");
  }
  const auto scale = static_cast<float>(field.number("scale"));
  if (!(scale > 0) || !std::isfinite(scale)) field.fail_at("scale", "a number above 0 that float32 can hold");
  return {Kind::feature, name, scale};
}

}  // namespace

bool BlockChannel::is_color() const {
  return kind == Kind::feature && std::any_of(kColors, kColors + 3, [this](const char* color) { return name == color; });
}

std::vector<std::string> BlockLayout::features() const {
  std::vector<std::string> names;
  for (const BlockChannel& channel : channels) {
    if (channel.kind == Kind::feature) names.push_back(channel.name);
  }
  return names;
}

bool BlockLayout::has_height() const {
  return std::any_of(channels.begin(), channels.end(), [](const auto& channel) { return channel.kind == Kind::height; });
}

BlockLayout read_blocks(const JsonValue& value, const std::string& what, int channels) {
  const Fields blocks(value, what);
  blocks.expect_keys({"side", "unit", "up", "channels"});
  blocks.choice<int>("unit", {{"m", 0}});
  blocks.choice<int>("up", {{"z", 0}});
  const double side = blocks.number("side");
  if (!(side >= kLeastSide && side <= kMostSide)) blocks.fail_at("side", "1/1024 to 1048576 meters");
  BlockLayout layout{static_cast<float>(side), {}};
  for (const JsonValue& item : blocks.list("channels", channels, channels)) {
    const std::string place = what + ": channel " + decimal(layout.channels.size());
    layout.channels.push_back(item.kind() == JsonValue::Kind::string ? read_name(item, place) : read_field(item, place));
    for (std::size_t i = 0; i + 1 < layout.channels.size(); ++i) {
      if (layout.channels[i].name == layout.channels.back().name) fail(place, item.describe(), "each channel once");
    }
  }
  const auto kind_of = [&layout](std::size_t i) { return layout.channels[i].kind; };
  if (kind_of(0) != Kind::x || kind_of(1) != Kind::y || (kind_of(2) != Kind::z && kind_of(2) != Kind::height)) {
    fail(what, "the first channels " + layout.channels[0].name + ", " + layout.channels[1].name + " and " +
                   layout.channels[2].name, "x, y, and z or height");
  }
  return layout;
}

}  // namespace bipointnet
