#include "study/plans/explanation_judging.h"

#include <gtest/gtest.h>

namespace plimsoll::study {
namespace {

using check::CertificateStatus;

NoPlan explanation() {
  NoPlan none;
  none.binding = "hbm";
  none.missing = 100;
  none.lines = {"all tables together need 100 bytes more"};
  none.cap = "hbm";
  none.conflict = {{"reservation", "--reservation fixed_percentage:0.2"},
                   {"cap", "--hbm-cap 1GiB"}};
  none.is_irreducible = true;
  none.fixes = {{"ranks", "--on 3x1GiB", 1.5}, {"memory", "--hbm-cap 2GiB", 2.5}};
  return none;
}

CertificateStatus status_of(const NoPlan& stated) {
  return judge_explanation(stated, explanation()).status;
}

TEST(JudgeExplanation, ProvesWhatIsFoundAgain) {
  EXPECT_EQ(status_of(explanation()), CertificateStatus::kProved);
  EXPECT_EQ(judge_explanation(explanation(), std::nullopt).status, CertificateStatus::kNotRepeated);
  EXPECT_EQ(status_of({}), CertificateStatus::kAbsent);
}

TEST(JudgeExplanation, LetsAnAnswerSayLess) {
  NoPlan stated = explanation();
  stated.cap.clear();
  stated.is_irreducible = false;
  stated.fixes.erase(stated.fixes.begin());
  EXPECT_EQ(status_of(stated), CertificateStatus::kProved);
  stated.conflict.clear();
  EXPECT_EQ(status_of(stated), CertificateStatus::kProved);
  stated.is_irreducible = true;
  EXPECT_EQ(status_of(stated), CertificateStatus::kRefuted);
}

TEST(JudgeExplanation, RefutesOtherFigures) {
  const auto refutes = [](auto change) {
    NoPlan stated = explanation();
    change(stated);
    return status_of(stated) == CertificateStatus::kRefuted;
  };
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.binding = "ddr"; }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.missing = 101; }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.missing = 0; }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.cap = "ddr"; }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.conflict.pop_back(); }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.conflict[0].kind = "cap"; }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.fixes[1].ms = 2.4; }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.fixes[0].ms.reset(); }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.fixes[0].kind = "batch_size"; }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { stated.fixes.push_back(stated.fixes.back()); }));
  EXPECT_TRUE(refutes([](NoPlan& stated) { std::swap(stated.fixes[0], stated.fixes[1]); }));

  NoPlan again = explanation();
  again.is_irreducible = false;
  EXPECT_EQ(judge_explanation(explanation(), again).status, CertificateStatus::kRefuted);
}

TEST(JudgeExplanation, DoesNotRepeatOtherWords) {
  const auto is_not_repeated = [](auto change) {
    NoPlan stated = explanation();
    change(stated);
    return status_of(stated) == CertificateStatus::kNotRepeated;
  };
  EXPECT_TRUE(is_not_repeated([](NoPlan& stated) { stated.lines.clear(); }));
  EXPECT_TRUE(is_not_repeated([](NoPlan& stated) { stated.conflict[1].name = "hbm_cap"; }));
  EXPECT_TRUE(is_not_repeated([](NoPlan& stated) { stated.fixes[0].change = "--on 4x1GiB"; }));
}

}  // namespace
}  // namespace plimsoll::study
