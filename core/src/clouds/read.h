// A file or its bytes -> Cloud.
#pragma once

#include <string>
#include <string_view>

#include "clouds/cloud.h"

namespace bipointnet::clouds {

// Reads the cloud in a file; the suffix determines the format. "-" is text from standard input. Errors begin with the
// path.
Cloud read_cloud(const std::string& path, const ReadOptions& options = {});

// The same for bytes; `name` gives the suffix and stands for the path in errors.
Cloud read_cloud_bytes(std::string_view bytes, const std::string& name, const ReadOptions& options = {});

// The suffixes that read_cloud() accepts, for messages: ".xyz .txt ...".
const std::string& cloud_suffixes();

}  // namespace bipointnet::clouds
