// Reads the fields of an operation, as its row of the table lists them.
#pragma once

#include "format/fields.h"
#include "format/network.h"
#include "format/operations.h"

namespace bipointnet {

// Sets the members of `operation` that `rule` lists as fields, and `count` if it has a size rule. Throws FormatError.
void read_fields(const Fields& fields, const OperationRule& rule, Operation& operation, SizeRule& count);

// Checks the fields that depend on the number of channels of the first operand, operation.inputs.
void check_widths(const Fields& fields, const OperationRule& rule, const Operation& operation);

}  // namespace bipointnet
