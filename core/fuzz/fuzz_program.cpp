// The fuzz target of programs: the bytes choose a random valid program, and perhaps a few changes of its text. The
// reader accepts a valid program, and refuses a changed one or returns a network that still runs; the engine computes
// what the interpreter of naive.h computes.
#include <string>

#include "engine_runs.h"
#include "network_text.h"
#include "random_program.h"
#include "random_templates.h"

using namespace bipointnet;

namespace {

// A name, a word or a number in a text.
struct Token {
  std::size_t begin, length;
};

std::vector<Token> tokens(const std::string& text) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  std::vector<Token> found;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    std::size_t end = begin;
    while (end < text.size() && is_part(text[end])) ++end;
    if (end > begin) found.push_back({begin, end - begin});
    begin = end;
  }
  return found;
}

// Replaces one token by another one of the text, or by a number at the border of a limit.
void change(std::string& text, random::Source& source) {
  const std::vector<std::string> borders = {"0",    "1",     "-1",    "2",          "3",     "64",  "4096",
                                            "4097", "32766", "32767", "4294967295", "1e300", "0.5", "1048576"};
  const std::vector<Token> found = tokens(text);
  const Token from = source.one_of(found), to = source.one_of(found);
  const std::string word = source.one_in(2) ? source.one_of(borders) : text.substr(to.begin, to.length);
  text.replace(from.begin, from.length, word);
}

void set_golden(Network& network, random::Source& source) {
  network.golden_points = source.between(1, 9);
  network.golden_seed = 7;
  network.golden_tolerance = 1e30;
  network.golden.assign((network.per_point() ? size(network.golden_points) : 1) * network.classes.size(), 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  random::Source source(bytes, size);
  const int changes = source.one_in(2) ? 0 : source.between(1, 3);
  const bool looks_real = source.one_in(4);
  Network network = looks_real ? random::Templates(source, {20, 6}).by_number(source.below(random::Templates::kCount))
                               : random::random_program(source, {20, 6, 3, 4, 30});
  set_golden(network, source);
  PackedFile file = packed(network);
  for (int i = 0; i < changes; ++i) change(file.manifest, source);
  auto read = fuzz::parsed(file.bytes());
  fuzz::expect(read || changes > 0);
  if (read) fuzz::run(std::move(*read));
  return 0;
}
