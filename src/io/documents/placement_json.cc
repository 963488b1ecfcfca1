#include "plimsoll/io/placement_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "io/documents/placement_descriptions.h"
#include "io/documents/plan_tree.h"

namespace plimsoll::io {

using partition::DeviceClass;

namespace {

std::vector<int> distinct_devices(const std::vector<int>& ids) {
  PlacedStage stage;
  put_logical_devices(ids, stage);
  return stage.devices;
}

Result<void> check_stages(const PlacementAnswer& answer, std::string_view file) {
  std::set<std::string_view> seen;
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const PlacedStage& stage = (*answer.plan)[s];
    const auto place = [&](std::string_view key, std::size_t i) {
      return document_place(file, fmt::format("/stages/{}/{}/{}", s, key, i));
    };
    for (std::size_t i = 0; i < stage.devices.size(); ++i) {
      const auto end = stage.devices.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::find(stage.devices.begin(), end, stage.devices[i]) == end) continue;
      return fail(ErrorCode::kConflict, place("devices", i),
                  fmt::format("device {} occurs twice", stage.devices[i]), "name each device once");
    }
    if (!stage.logical_device_ids.empty() &&
        distinct_devices(stage.logical_device_ids) != stage.devices) {
      return fail(ErrorCode::kConflict,
                  document_place(file, fmt::format("/stages/{}/logical_device_ids", s)),
                  "names other devices than 'devices', or in another order",
                  "leave it out, or list the same devices, each as often as torch does");
    }
    if (answer.objective == partition::Objective::kFx) continue;
    for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
      if (seen.insert(stage.nodes[i]).second) continue;
      return fail(ErrorCode::kConflict, place("nodes", i),
                  fmt::format("node '{}' is in a stage already", stage.nodes[i]),
                  "place every node once");
    }
  }
  return {};
}

}  // namespace

bool is_placement_tree(const JsonValue& root) {
  if (root.find("schema") != nullptr) {
    return check_schema(root, "", kPlacementSchema).has_value();
  }
  return root.find("stages") != nullptr;
}

bool is_placement(std::string_view text) {
  const auto root = parse_json(text, "");
  return root && is_placement_tree(*root);
}

Result<PlacementAnswer> read_placement(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_placement_tree(root, file);
}

Result<PlacementAnswer> read_placement_tree(const JsonValue& root, std::string_view file) {
  PLIMSOLL_ASSIGN(PlacementDocument document,
                  read_tree<PlacementDocument>(root, file, kPlacementSchema));
  PlacementAnswer answer = std::move(document.answer);
  for (ClassEntry& entry : document.classes) {
    entry.devices.link_rate = entry.link_rate.value_or(partition::kUnlimited);
    answer.classes.push_back(std::move(entry.devices));
  }
  if (!answer.plan && !answer.status) {
    return fail(ErrorCode::kSchema, document_place(file, ""), "the key 'stages' is missing",
                "list the stages of the placement; without any, []");
  }
  if (answer.plan) PLIMSOLL_RETURN_IF_ERROR(check_stages(answer, file));
  if (document.certificate) {
    PLIMSOLL_ASSIGN(answer.certificate, take_certificate(*document.certificate, file));
  }
  return answer;
}

std::string write_placement(const PlacementAnswer& answer) {
  PlacementDocument document;
  document.answer = answer;
  for (const DeviceClass& devices : answer.classes) {
    ClassEntry entry{devices, {}};
    if (std::isfinite(devices.link_rate)) entry.link_rate = devices.link_rate;
    document.classes.push_back(std::move(entry));
  }
  if (answer.certificate) {
    document.certificate = make_certificate_entry(*answer.certificate);
  }
  return write_document(document);
}

}  // namespace plimsoll::io
