// What every `check` prints: the verdict, the checker's word on the certificate, the findings.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/check/finding.h"
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
inline std::string judgement_lines(const check::CheckReport& report, const GlobalFlags& global) {
  return judgement_line("certificate", report.certificate, global) +
         judgement_line("explanation", report.explanation, global);
}

// "right: no violations, 2 hazards"; of plans that know no hazards the first alone.
inline std::string verdict(const check::CheckReport& report, bool has_hazards,
                           const GlobalFlags& global) {
  const auto count = [](std::size_t number, std::string_view one, std::string_view many) {
    return number == 0 ? fmt::format("no {}", many)
                       : counted(static_cast<std::int64_t>(number), one, many);
  };
  std::string text = fmt::format(
      "{}: {}",
      report.is_right() ? paint("right", Tone::kGood, global) : paint("wrong", Tone::kBad, global),
      count(report.violations().size(), "violation", "violations"));
  if (has_hazards) text += ", " + count(report.hazards().size(), "hazard", "hazards");
  return text;
}

// Violations and hazards below the verdict, those of one kind folded unless all are asked for. What
// the certificate says of warnings, its line says. One line each, except at a terminal that is
// narrower.
inline std::string findings_text(const check::CheckReport& report, const GlobalFlags& global) {
  std::vector<CodedLine> lines;
  for (const auto severity : {check::Severity::kViolation, check::Severity::kHazard}) {
    for (const check::Finding& finding : report.of(severity)) {
      lines.push_back(
          {fmt::format("{} {}", to_string(severity), to_string(finding.code)), to_text(finding)});
    }
  }
  std::string text;
  for (const std::string& line : fold_lines(lines, global.verbosity > 0)) text += line + "\n";
  return isatty(STDOUT_FILENO) != 0 ? in_lines(text, 2) : text;
}

}  // namespace plimsoll::app
