// How a scan is cut into blocks: the key `blocks` of the manifest. docs/format.md, "Blocks", has its meaning.
#pragma once

#include <string>
#include <vector>

namespace bipointnet {

class JsonValue;

// One channel of a point in a block.
struct BlockChannel {
  enum class Kind { x, y, z, height, share_x, share_y, share_z, feature };
  Kind kind{};
  std::string name;  // of a feature: red, green, blue, or a column of the file
  float scale = 1;   // of a feature: it is divided by it
  bool is_color() const;
};

struct BlockLayout {
  float side = 0;                      // of a block, in meters; 0: the model does not say how scans are cut
  std::vector<BlockChannel> channels;  // in the order in which the network reads them

  std::vector<std::string> features() const;  // the names of the features, in order
  bool has_height() const;
};

// Reads the key `blocks` for a model that reads `channels` channels per point. Throws FormatError.
BlockLayout read_blocks(const JsonValue& value, const std::string& what, int channels);

}  // namespace bipointnet
