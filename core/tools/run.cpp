// bipointnet-run: classifies clouds, or labels their points, with a packed model. For boards without Python.
//
//   options      the command line
//   files        files and folders that the user names
//   predict      one file -> its prediction
//   label_files  labels of points as .txt, .npy, .ply
//   unlike       warnings for a cloud that is unlike the training data
//   output       text for terminals and JSON
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "bipointnet.h"
#include "files.h"
#include "label_files.h"
#include "options.h"
#include "output.h"
#include "predict.h"

namespace {

using namespace bipointnet::tool;

constexpr int kExitError = 2;

std::string guess_json(const Guess& guess) {
  char probability[32];
  std::snprintf(probability, sizeof probability, "%.9g", guess.probability);
  return "\"label\": " + json_string(guess.label) + ", \"probability\": " + probability;
}

std::string prediction_json(const Prediction& prediction) {
  const std::string file = "  {\"file\": " + json_string(prediction.file);
  if (!prediction.error.empty()) return file + ", \"error\": " + json_string(prediction.error) + "}";
  std::string json = file + ", \"task\": " + json_string(prediction.task);
  std::string list;
  if (prediction.task == "classify") {
    for (const Guess& guess : prediction.top) list += (list.empty() ? "{" : ", {") + guess_json(guess) + "}";
    json += ", " + guess_json(prediction.top[0]) + ", \"points\": " + std::to_string(prediction.points) +
            ", \"top\": [" + list + "]";
  } else {
    for (const Count& count : prediction.classes) {
      list += (list.empty() ? "" : ", ") + json_string(count.label) + ": " + std::to_string(count.points);
    }
    json += ", \"points\": " + std::to_string(prediction.points) + ", \"classes\": {" + list +
            "}, \"written\": " + json_strings(prediction.written);
  }
  return json + ", \"warnings\": " + json_strings(prediction.warnings) + "}";
}

std::string prediction_text(const Prediction& prediction) {
  std::string text;
  for (const Guess& guess : prediction.top) {
    char percent[32];
    std::snprintf(percent, sizeof percent, "%.1f %%", 100 * guess.probability);
    text += plain(prediction.file) + "  " + plain(guess.label) + "  " + percent + "\n";
  }
  for (const Count& count : prediction.classes) {
    text += plain(prediction.file) + "  " + plain(count.label) + "  " + std::to_string(count.points) + " points\n";
  }
  for (const std::string& file : prediction.written) text += "Written: " + plain(file) + "\n";
  return text;
}

// Calls work(file) for every file; a name that is not a file or folder of clouds calls fail(name, sentence).
template <class Work, class Fail>
void for_each_file(const std::vector<std::string>& names, const Work& work, const Fail& fail) {
  for (const std::string& name : names) {
    std::vector<std::string> files;
    try {
      files = files_in(name);
    } catch (const Error& error) {
      fail(name, error.what());
    }
    for (const std::string& file : files) work(file);
  }
}

int dump_all(const Options& options) {
  int code = 0;
  const auto fail = [&](const std::string&, const std::string& sentence) {
    complain("error", sentence);
    code = kExitError;
  };
  for_each_file(
      options.files,
      [&](const std::string& file) {
        std::string text;
        try {
          text = dump_file(file, options);
        } catch (const std::runtime_error& error) {
          return fail(file, error.what());
        }
        print(text);
      },
      fail);
  return code;
}

// Before any file is read.
void check_options(const bipointnet_model* model, const Options& options) {
  const std::string task = bipointnet_task(model);
  const bool labels = bipointnet_segments(model) != 0;
  if (!labels && bipointnet_channels(model) != 3) {
    throw Error(options.model + ": reads " + std::to_string(bipointnet_channels(model)) +
                " channels per point, expected 3: x, y, z");
  }
  category_index(model, options);
  if (options.labels.empty()) return;
  if (!labels) throw Error("--labels is given, expected none: " + options.model + " classifies whole clouds");
  check_label_file(options.labels);
  std::vector<std::string> files;
  for (const std::string& name : options.files) {
    for (const std::string& file : files_in(name)) files.push_back(file);
  }
  if (files.size() != 1) {
    throw Error("--labels is given for " + std::to_string(files.size()) +
                " files, expected one; label them one by one");
  }
  for (const std::string& source : {files[0], options.model}) {
    if (same_file(source, options.labels)) {
      throw Error(options.labels + ": an input file, which would be overwritten; choose another path with --labels");
    }
  }
}

int predict_all(const Options& options) {
  const Model model = load_model(options.model);
  check_options(model.get(), options);
  int code = 0;
  std::string json;
  const auto report = [&](const Prediction& prediction) {
    if (!prediction.warnings.empty()) {
      complain("warning", shown(prediction.file) + ": " + joined(prediction.warnings, "; "));
    }
    if (!prediction.error.empty()) {
      complain("error", prediction.error);
      code = kExitError;
    }
    if (options.json) {
      json += (json.empty() ? "" : ",\n") + prediction_json(prediction);
    } else {
      print(prediction_text(prediction));
    }
  };
  for_each_file(
      options.files, [&](const std::string& file) { report(predict_file(model.get(), file, options)); },
      [&](const std::string& name, const std::string& sentence) {
        Prediction prediction;
        prediction.file = name;
        prediction.error = sentence;
        report(prediction);
      });
  if (options.json) print("[\n" + json + "\n]\n");
  return code;
}

int run(const std::vector<std::string>& arguments) {
  const Options options = parse_options(arguments);
  if (options.help) {
    print(help_text());
  } else if (options.version) {
    const char* isa = bipointnet_isa();
    if (isa == nullptr) throw Error(bipointnet_error());
    print(std::string("bipointnet-run ") + bipointnet_version() + " (" + isa + ")\n");
  } else {
    return options.dump ? dump_all(options) : predict_all(options);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on the size of files is an error like a full disk
#endif
  std::string error;
  const std::string no_memory = "not enough memory for the clouds and the model";
  try {
    return run({arguments + std::min(count, 1), arguments + count});
  } catch (const std::bad_alloc&) {
    error = no_memory;
  } catch (const std::length_error&) {  // of a vector
    error = no_memory;
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  complain("error", error);
  return kExitError;
}
