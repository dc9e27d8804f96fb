// Decimal numbers in text.
#pragma once

#include <optional>
#include <string_view>

namespace bipointnet {

// The double nearest to [+-] digits [. digits] [e [+-] digits], with digits before or after the point: infinite if the
// number is too large, 0 if it is too small; none if the text is something else. Independent of the locale.
std::optional<double> decimal_number(std::string_view text);

}  // namespace bipointnet
