"""Models of up to eight tables on up to four ranks, too many plans to try: the best plan is proved, in every objective.

Nothing but the checker is trusted: with `--strict` it repeats the proof or fails, and it finds the reference's plan,
which may be no better. Tables are those of recommenders, thousands to millions of rows; HBM is ample or scarce.
"""

from campaign import main, require

GIB = 2**30
ENOUGH_FOR_A_PLAN = (0, 2)  # exit codes: a plan, or proved that there is none


def random_model(random):
    tables = []
    for index in range(random.randint(2, 8)):
        tables.append(
            {
                "name": f"t{index}",
                "num_embeddings": int(10 ** random.uniform(3, 7)),
                "embedding_dim": random.choice([16, 32, 64, 128, 256]),
                "feature_names": [f"f{index}"],
                "constraints": {"pooling_factors": [random.choice([1, 1, 5, 20, 80])]},
            }
        )
    return {"modules": [{"path": "sparse", "kind": "embedding_bag_collection", "tables": tables}]}


def oracle(program, random):
    model = random_model(random)
    program.write("model.json", model)
    ranks = random.randint(2, 4)
    size = sum(4 * t["num_embeddings"] * t["embedding_dim"] for t in model["modules"][0]["tables"])
    room = max(1, size * random.choice([1.3, 2, 4]) / ranks / GIB / 0.8)
    on = ["--on", f"{ranks}x{room:.3f}GiB", "--batch-size", str(random.choice([512, 4096]))]
    if ranks == 4 and random.randrange(2) == 0:
        on += ["--local-world-size", "2"]
    objective = random.choice(["rating", "step", "time", None])
    flags = ["--objective", objective] if objective else []
    code, answer = program.run("shard", "model.json", *on, *flags, "-o", "plan.json")
    require(code in ENOUGH_FOR_A_PLAN, "exit code", code, answer)
    require(answer["status"] in ("optimal", "infeasible"), "not proved:", answer["status"], answer.get("certificate"))
    check_code, report = program.run("check", "model.json", "plan.json", *on, "--strict")
    require(check_code == 0 and report["is_right"], "check:", report)
    require(report["certificate_status"] == "proved", "certificate:", report["certificate_status"])
    reference = answer.get("reference", {})
    for name in (objective or "time", "rating") if objective is None else (objective,):
        if name in reference:
            require(answer["times"][name] <= reference[name] * (1 + 1e-9), "worse than the reference in", name)
    return [f"{objective or 'default'} {answer['status']}", f"{ranks} ranks"]


if __name__ == "__main__":
    main(oracle, [f"{objective} optimal" for objective in ("rating", "step", "time", "default")])
