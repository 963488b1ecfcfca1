// What every `check` prints: the verdict, the checker's word on the certificate, the findings.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/check/certificate_status.h"
#include "plimsoll/common.h"
#include "plimsoll/text/text_layout.h"

namespace plimsoll::app {

// "certificate proved: ..."; nothing where nothing is claimed.
inline std::string judgement_line(std::string_view subject,
                                  const check::CertificateJudgement& certificate,
                                  const GlobalFlags& global) {
  Tone tone = Tone::kNote;
  switch (certificate.status) {
    case check::CertificateStatus::kAbsent:
      return "";
    case check::CertificateStatus::kProved:
      tone = Tone::kGood;
      break;
    case check::CertificateStatus::kNotRepeated:
      break;
    case check::CertificateStatus::kRefuted:
      tone = Tone::kBad;
      break;
  }
  std::string status(to_string(certificate.status));
  if (certificate.status == check::CertificateStatus::kNotRepeated) status = "not repeated";
  return in_lines(
      fmt::format("{} {}: {}\n", subject, paint(status, tone, global), shown(certificate.reason)),
      2);
}

// Of a report's certificate, and of what it explains where there is no plan.
template <class Report>
std::string judgement_lines(const Report& report, const GlobalFlags& global) {
  return judgement_line("certificate", report.certificate, global) +
         judgement_line("explanation", report.explanation, global);
}

// "right: no violations, 2 hazards".
inline std::string verdict(bool is_right, std::size_t num_violations,
                           std::optional<std::size_t> num_hazards, const GlobalFlags& global) {
  const auto count = [](std::size_t number, std::string_view one, std::string_view many) {
    return number == 0 ? fmt::format("no {}", many)
                       : counted(static_cast<std::int64_t>(number), one, many);
  };
  std::string text = fmt::format(
      "{}: {}", is_right ? paint("right", Tone::kGood, global) : paint("wrong", Tone::kBad, global),
      count(num_violations, "violation", "violations"));
  if (num_hazards) text += ", " + count(*num_hazards, "hazard", "hazards");
  return text;
}

// Findings below the verdict, those of one kind folded unless all are asked for. One line each,
// except at a terminal that is narrower.
inline std::string findings_text(const std::vector<CodedLine>& lines, const GlobalFlags& global) {
  std::string text;
  for (const std::string& line : fold_lines(lines, global.verbosity > 0)) text += line + "\n";
  return isatty(STDOUT_FILENO) != 0 ? in_lines(text, 2) : text;
}

}  // namespace plimsoll::app
