// From the columns of a file to a cloud.
#pragma once

#include "clouds/cloud.h"

namespace bipointnet::clouds {

// Finds x, y, z and the colors by name; drops points that have a NaN or infinite coordinate, as scanners write them for
// "no return", or refuses them if `strict` or if the file has faces; checks that faces name existing points and have an
// area; converts to float32.
//
// If float32 would round away the shape of a cloud far from the origin (a georeferenced scan), x, y and z become relative
// to `origin`, the corner of the cloud, rounded down to whole numbers.
//
// Colors: 8 bits of 255; 16 bits of 65535, or of 255 where no value is larger (many programs write so); others are from 0
// to 1, or whole numbers up to 255. Columns with other values are not colors and stay in `fields`.
Cloud finish(Parsed parsed, bool strict);

}  // namespace bipointnet::clouds
