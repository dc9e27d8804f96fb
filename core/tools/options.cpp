#include "options.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <thread>

#include "clouds/read.h"

namespace bipointnet::tool {
namespace {

constexpr unsigned kMaxThreads = 1024;

constexpr const char* kUsage = "bipointnet-run MODEL FILE... [options]";
constexpr const char* kHelp =
    "\n"
    "Classifies the cloud in each FILE with the packed model MODEL. If the model has\n"
    "task part or semantic, labels every point and prints the number of points per\n"
    "class.\n"
    "\n"
    "  FILE         a cloud or mesh, a folder of them, or - for text from standard\n"
    "               input; the suffix determines the format:\n"
    "               {suffixes}\n"
    "  --category NAME\n"
    "               the category of the clouds, for a model with a category input\n"
    "  --labels OUT\n"
    "               write the label of every point of FILE, in the order of the file:\n"
    "               .txt (one per line), .npy (int64) or .ply (points, labels, colors)\n"
    "  --top K      print the K most probable classes (default 1; in JSON 3)\n"
    "  --columns NAMES\n"
    "               the columns of a text or .bin file, like x,y,z,-,red,green,blue;\n"
    "               - ignores a column\n"
    "  --strict     refuse a file with NaN or infinite coordinates; by default these\n"
    "               points are dropped\n"
    "  --threads N  number of threads (default: one per CPU core)\n"
    "  --json       print a JSON array\n"
    "  --dump       print the points of each FILE, x y z or x y z r g b per line; there\n"
    "               is no MODEL\n"
    "  --help       print this help\n"
    "  --version    print the version and the instruction set in use\n"
    "\n"
    "A classifier uses at most as many points as the model says and takes a sample of a\n"
    "larger cloud or of a mesh. Exit code 0; 2 if a FILE has no prediction, after one\n"
    "sentence for each such FILE on standard error.\n";

unsigned number_option(const std::string& name, std::string_view text, unsigned most) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most) {
    throw Error(name + " is '" + std::string(text) + "', expected an integer from 1 to " + std::to_string(most));
  }
  return number;
}

std::vector<std::string> column_names(const std::string& text) {
  std::vector<std::string> names;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    names.push_back(text.substr(start, comma - start));
    if (names.back().empty()) {
      throw Error("--columns is '" + text + "', expected names separated by commas, like x,y,z,-,red,green,blue");
    }
    start = comma + 1;
  }
  return names;
}

bool takes_value(const std::string& name) {
  return name == "--top" || name == "--threads" || name == "--category" || name == "--labels" || name == "--columns";
}

void set_value(Options& options, const std::string& name, const std::string& text) {
  if (text.empty()) throw Error(name + " is empty, expected a value");
  if (name == "--top") options.top = number_option(name, text, 1000000);
  if (name == "--threads") options.threads = number_option(name, text, kMaxThreads);
  if (name == "--category") options.category = text;
  if (name == "--labels") options.labels = text;
  if (name == "--columns") options.reading.columns = column_names(text);
}

bool set_flag(Options& options, const std::string& name) {
  bool* flag = name == "--strict"                   ? &options.reading.strict
               : name == "--json"                   ? &options.json
               : name == "--dump"                   ? &options.dump
               : name == "--help" || name == "-h"   ? &options.help
               : name == "--version"                ? &options.version
                                                    : nullptr;
  if (flag != nullptr) *flag = true;
  return flag != nullptr;
}

void assign_names(Options& options, std::vector<std::string> names) {
  const std::string hint = ", expected " + std::string(kUsage) + "; see bipointnet-run --help";
  if (names.empty()) throw Error((options.dump ? "no FILE" : "no MODEL and no FILE") + hint);
  if (!options.dump) {
    options.model = names.front();
    names.erase(names.begin());
    if (names.empty()) throw Error("no FILE after the MODEL '" + options.model + "'" + hint);
  }
  options.files = std::move(names);
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  options.threads = std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
  std::vector<std::string> names;
  bool names_only = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (names_only || argument == "-" || argument.empty() || argument[0] != '-') {
      names.push_back(argument);
      continue;
    }
    if (argument == "--") {
      names_only = true;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (takes_value(name)) {
      if (equals == std::string::npos && ++i == arguments.size()) throw Error(name + " has no value, expected one");
      set_value(options, name, equals == std::string::npos ? arguments[i] : argument.substr(equals + 1));
    } else if (!set_flag(options, argument)) {
      throw Error("unknown option '" + argument + "', expected one of those in bipointnet-run --help");
    }
  }
  if (!options.help && !options.version) assign_names(options, std::move(names));
  return options;
}

std::string help_text() {
  std::string text = "usage: " + std::string(kUsage) + "\n" + kHelp;
  std::string suffixes = clouds::cloud_suffixes();
  constexpr std::size_t kIndent = 15, kWidth = 80 - kIndent;
  for (std::size_t start = 0; suffixes.size() - start > kWidth;) {
    const std::size_t blank = suffixes.rfind(' ', start + kWidth);
    suffixes.replace(blank, 1, "\n" + std::string(kIndent, ' '));
    start = blank + 1 + kIndent;
  }
  const std::string mark = "{suffixes}";
  return text.replace(text.find(mark), mark.size(), suffixes);
}

}  // namespace bipointnet::tool
