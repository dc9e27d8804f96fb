// bipointnet-run: classifies clouds, or labels their points, with a packed model. For boards without Python.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bipointnet.h"
#include "clouds.h"

namespace {

constexpr int kExitError = 2;
constexpr unsigned kMaxThreads = 1024;

constexpr const char* kUsage =
    "bipointnet-run MODEL FILE... [--category NAME] [--top K] [--threads N] [--raw] [--json]";
constexpr const char* kHelp =
    "\n"
    "Classifies the cloud in each FILE with the packed model MODEL. If the model has\n"
    "task part or semantic, prints the number of points per class instead.\n"
    "\n"
    "  FILE         text (.xyz .txt .csv .pts), PLY (.ply) or little-endian float32\n"
    "               (.f32 .bin .raw); - is text from standard input. All points are\n"
    "               used; the points of a mesh are its vertices.\n"
    "  --category NAME\n"
    "               the category of the clouds, for a model that needs it\n"
    "  --top K      print the K most probable classes, one per line (default 1)\n"
    "  --threads N  threads that share the points of a cloud (default 1)\n"
    "  --raw        use the coordinates as they are, without normalizing the cloud;\n"
    "               a model of rooms needs this, and files that hold blocks\n"
    "  --json       print a JSON array\n"
    "  --help       print this help\n"
    "  --version    print the version and the instruction set in use\n"
    "\n"
    "Exit code 0, or 2 after one sentence on standard error.\n";

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::vector<std::string> names;  // MODEL FILE...
  std::size_t top = 1;
  unsigned threads = 1;
  std::string category;
  bool raw = false, json = false, help = false, version = false;
};

struct Guess {
  std::string label;
  double probability;
};

struct Answer {
  std::string file;
  std::size_t points;
  std::vector<Guess> guesses;  // the most probable first
};

struct Part {
  std::string label;
  std::size_t points;
};

struct Parts {
  std::string file;
  std::string task;
  std::size_t points;
  std::vector<Part> parts;  // only parts with points, the largest first
};

unsigned number_option(const std::string& name, std::string_view text, unsigned most) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most) {
    throw Error(name + " is '" + std::string(text) + "', expected an integer from 1 to " + std::to_string(most));
  }
  return number;
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  bool names_only = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (names_only || argument == "-" || argument.empty() || argument[0] != '-') {
      options.names.push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (name == "--top" || name == "--threads" || name == "--category") {
      if (equals == std::string::npos && ++i == arguments.size()) {
        throw Error(name + " has no value, expected a " + (name == "--category" ? "name" : "number"));
      }
      const std::string text = equals == std::string::npos ? arguments[i] : argument.substr(equals + 1);
      if (name == "--top") options.top = number_option(name, text, 1000000);
      if (name == "--threads") options.threads = number_option(name, text, kMaxThreads);
      if (name == "--category") options.category = text;
    } else if (argument == "--") {
      names_only = true;
    } else if (argument == "--raw") {
      options.raw = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (argument == "--version") {
      options.version = true;
    } else {
      throw Error("unknown option '" + argument + "', expected one of those in --help");
    }
  }
  return options;
}

// The number of bytes of the UTF-8 character at the start of `text`, or 0 if it is invalid.
std::size_t character_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, code points above U+10FFFF.
  const bool invalid = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                       (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return invalid ? 0 : length;
}

// A file name may contain any bytes; those that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      json += "\\ufffd";
    } else if (first < 0x20 || first == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", unsigned{first});
      json += escape;
    } else {
      if (first == '"' || first == '\\') json += '\\';
      json += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return json + '"';
}

// One line for a terminal, without control characters.
std::string plain(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '?';
  }
  return text;
}

std::string guess_json(const Guess& guess) {
  char probability[32];
  std::snprintf(probability, sizeof probability, "%.9g", guess.probability);
  return "\"label\": " + json_string(guess.label) + ", \"probability\": " + probability;
}

std::string answer_json(const Answer& answer, bool top) {
  std::string json = "  {\"file\": " + json_string(answer.file) + ", \"task\": \"classify\", " +
                     guess_json(answer.guesses[0]) + ", \"points\": " + std::to_string(answer.points);
  if (top) {
    std::string list;
    for (const Guess& guess : answer.guesses) list += (list.empty() ? "{" : ", {") + guess_json(guess) + "}";
    json += ", \"top\": [" + list + "]";
  }
  return json + "}";
}

std::string answer_text(const Answer& answer) {
  std::string text;
  for (const Guess& guess : answer.guesses) {
    char percent[32];
    std::snprintf(percent, sizeof percent, "%.1f %%", 100 * guess.probability);
    text += plain(answer.file) + "  " + plain(guess.label) + "  " + percent + "\n";
  }
  return text;
}

std::string parts_json(const Parts& parts) {
  std::string list;
  for (const Part& part : parts.parts) {
    list += (list.empty() ? "{" : ", {") + std::string("\"label\": ") + json_string(part.label) +
            ", \"points\": " + std::to_string(part.points) + "}";
  }
  return "  {\"file\": " + json_string(parts.file) + ", \"task\": \"" + parts.task +
         "\", \"points\": " + std::to_string(parts.points) + ", \"parts\": [" + list + "]}";
}

std::string parts_text(const Parts& parts) {
  std::string text;
  for (const Part& part : parts.parts) {
    text += plain(parts.file) + "  " + plain(part.label) + "  " + std::to_string(part.points) + " points\n";
  }
  return text;
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error("cannot write to standard output, expected an open terminal, file or pipe");
  }
}

using Model = std::unique_ptr<bipointnet_model, void (*)(bipointnet_model*)>;

Model load(const std::string& path) {
  bipointnet_model* model = nullptr;
  if (bipointnet_load(path.c_str(), &model) != BIPOINTNET_OK) throw Error(bipointnet_error());
  return Model(model, bipointnet_free);
}

// The `top` most probable classes.
std::vector<Guess> guesses_of(const bipointnet_model* model, const std::vector<float>& logits, std::size_t top) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights;
  for (const std::size_t index : order) weights.push_back(std::exp(double{logits[index]} - double{logits[order[0]]}));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<Guess> guesses;
  for (std::size_t i = 0; i < std::min(top, order.size()); ++i) {
    guesses.push_back({bipointnet_class_name(model, order[i]), weights[i] / sum});
  }
  return guesses;
}

Answer answer_of(const bipointnet_model* model, const std::string& file, const Options& options) {
  const std::size_t channels = bipointnet_channels(model);
  const std::vector<float> cloud = bipointnet::read_cloud(file, channels, !options.raw);
  const std::size_t points = cloud.size() / channels;
  std::vector<float> logits(bipointnet_classes(model));
  const int raw = options.raw ? 1 : 0;
  if (bipointnet_predict(model, cloud.data(), 1, points, raw, options.threads, logits.data()) != BIPOINTNET_OK) {
    throw Error(file + ": " + bipointnet_error());
  }
  return {file, points, guesses_of(model, logits, options.top)};
}

// The number of the category, or -1 if the model has none.
int category_of(const bipointnet_model* model, const Options& options) {
  const std::size_t count = bipointnet_categories(model);
  std::string names;
  for (std::size_t i = 0; i < count; ++i) {
    if (options.category == bipointnet_category_name(model, i)) return static_cast<int>(i);
    names += (i == 0 ? "" : ", ") + std::string(bipointnet_category_name(model, i));
  }
  if (count > 0) {
    const std::string found = options.category.empty() ? "not given" : "'" + options.category + "'";
    throw Error("--category is " + found + ", expected one of " + names);
  }
  if (!options.category.empty()) throw Error("--category is given, expected none: the model has no categories");
  return -1;
}

Parts parts_of(const bipointnet_model* model, const std::string& file, const Options& options) {
  const std::size_t channels = bipointnet_channels(model);
  const std::vector<float> cloud = bipointnet::read_cloud(file, channels, !options.raw);
  const std::size_t points = cloud.size() / channels;
  std::vector<int> labels(points);
  if (bipointnet_segment(model, cloud.data(), points, category_of(model, options), options.raw ? 1 : 0, options.threads,
                         labels.data(), nullptr) != BIPOINTNET_OK) {
    throw Error(file + ": " + bipointnet_error());
  }
  std::vector<std::size_t> counts(bipointnet_classes(model));
  for (const int label : labels) ++counts[static_cast<std::size_t>(label)];
  Parts parts{file, bipointnet_task(model), points, {}};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) parts.parts.push_back({bipointnet_class_name(model, i), counts[i]});
  }
  std::stable_sort(parts.parts.begin(), parts.parts.end(),
                   [](const Part& a, const Part& b) { return a.points > b.points; });
  return parts;
}

void answer_all(const Options& options) {
  if (options.names.size() < 2) {
    const std::string found = options.names.empty() ? "no MODEL and no FILE" : "no FILE";
    throw Error(found + " on the command line, expected " + kUsage);
  }
  const Model model = load(options.names[0]);
  category_of(model.get(), options);
  if (bipointnet_task(model.get()) == std::string("semantic") && bipointnet_normalizes(model.get()) == 0 &&
      !options.raw) {
    throw Error(options.names[0] +
                ": a model for blocks of rooms, expected --raw and files that hold such blocks; "
                "`bipointnet segment` splits a scan into blocks");
  }
  std::string json;
  for (std::size_t i = 1; i < options.names.size(); ++i) {
    std::string text;
    if (bipointnet_segments(model.get()) != 0) {
      const Parts parts = parts_of(model.get(), options.names[i], options);
      text = options.json ? parts_json(parts) : parts_text(parts);
    } else {
      const Answer answer = answer_of(model.get(), options.names[i], options);
      text = options.json ? answer_json(answer, options.top > 1) : answer_text(answer);
    }
    if (options.json) {
      json += (json.empty() ? "" : ",\n") + text;
    } else {
      print(text);
    }
  }
  if (options.json) print("[\n" + json + "\n]\n");
}

void run(const std::vector<std::string>& arguments) {
  const Options options = parse_options(arguments);
  if (options.help) {
    print(std::string("usage: ") + kUsage + "\n" + kHelp);
  } else if (options.version) {
    const char* isa = bipointnet_isa();
    if (isa == nullptr) throw Error(bipointnet_error());
    print(std::string("bipointnet-run ") + bipointnet_version() + " (" + isa + ")\n");
  } else {
    answer_all(options);
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::string error;
  try {
    run({arguments + std::min(count, 1), arguments + count});
    return 0;
  } catch (const std::bad_alloc&) {
    error = "not enough memory for the clouds and the model";
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  std::fprintf(stderr, "error: %s\n", plain(error).c_str());
  return kExitError;
}
