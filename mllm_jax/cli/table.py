"""The commands of `launch.py` as data: the functions that they call, and their needs.

Functions are named as `module:name`, as most of their modules load what computes: `--help` and a
mistake in a configuration need none of them. To add a command, add a row here and its options in
`mllm_jax.cli.options`.
"""

from __future__ import annotations

from collections.abc import Mapping

from mllm_jax.cli import configuration, drawing, models, planning, training
from mllm_jax.cli.benchmark import select_benchmark
from mllm_jax.cli.command import Command, CommandCall

_ANSWERING = "mllm_jax.cli.answering"
_CONFIGURATION = configuration.__name__

_ROWS = (
    Command(
        "train",
        "Train, or go on where the run of this name stopped; evaluate at the end.",
        CommandCall(
            "mllm_jax.train.trainer:train",
            training.training_arguments,
            devices="configured",
            compiled=True,
            liveness=True,
            budgets=True,
            prepare=training.prepare_training,
        ),
        {
            "supervise": CommandCall(
                "mllm_jax.supervise.start:supervise_training",
                training.supervision_arguments,
                training.answer_supervision,
                liveness=True,
                prepare=training.check_supervision,
            )
        },
    ),
    Command(
        "evaluate",
        "Loss and exact match on held-out samples, or metrics of answers to questions of your own.",
        CommandCall(
            "mllm_jax.train.components.evaluator:evaluate_run",
            training.config_argument,
            training.answer_evaluation,
            devices="configured",
            compiled=True,
            budgets=True,
        ),
        {"questions": CommandCall(f"{_ANSWERING}:evaluate_questions", config="none")},
        inputs="(--config FILE | (--run DIR | --release DIR) --questions FILE)",
    ),
    Command(
        "generate",
        "Answer a prompt with media, or a file of them, by a run or a released model.",
        CommandCall(f"{_ANSWERING}:answer_prompts", config="none"),
        inputs="(--run DIR | --release DIR) (--prompt TEXT | --batch FILE)",
        has_config=False,
    ),
    Command(
        "verify",
        "Compare loss and every gradient under the configured plans with a single device.",
        CommandCall(
            "mllm_jax.check.verify:verify_plans",
            training.config_argument,
            training.answer_verification,
            devices="configured",
            budgets=True,
        ),
    ),
    Command(
        "check",
        "Check devices, links, disk, clocks and packages of all processes, as before training.",
        CommandCall(
            f"{training.__name__}:examine_processes",
            answer=training.answer_health,
            devices="configured",
        ),
    ),
    Command(
        "config",
        "Print the configuration with every default filled in, or rewrite a file with old keys.",
        CommandCall(f"{_CONFIGURATION}:print_config"),
        {
            "write_keys": CommandCall(f"{_CONFIGURATION}:write_keys", config="none"),
            "write_batch": CommandCall(f"{_CONFIGURATION}:write_batch", config="none"),
            "keys": CommandCall(f"{_CONFIGURATION}:print_keys", config="none"),
            "upgrade": CommandCall(f"{_CONFIGURATION}:upgrade_files", config="none"),
        },
        inputs="(--config FILE | upgrade FILE ...)",
    ),
    Command(
        "data",
        "Make a small data set to try everything out with: drawn shapes, and questions about them.",
        CommandCall(
            "data.sources.shapes:write_example",
            drawing.example_arguments,
            drawing.answer_example,
            config="none",
        ),
        inputs="example --out DIR",
        has_config=False,
        has_overrides=False,
    ),
    Command(
        "preview",
        "Write a page of what the model sees: the first samples, as the loader packs them.",
        CommandCall(
            "mllm_jax.pages.samples.page:write_preview",
            drawing.preview_arguments,
            drawing.answer_preview,
            devices="host",
            budgets=True,
        ),
    ),
    Command(
        "budgets",
        "Suggest data.budgets that fit the data and the plans, with the padding to expect.",
        CommandCall(
            "mllm_jax.plan.budgets:advise_budgets",
            planning.budget_arguments,
            planning.answer_budgets,
        ),
    ),
    Command(
        "bench",
        "Measure parts of a step, of the loader or of a run against a baseline.",
        select_benchmark,
        inputs="NAME [--config FILE]",
    ),
    Command(
        "trace",
        "Draw the pipeline's schedule, and write it as a trace for Perfetto.",
        CommandCall(
            "mllm_jax.check.trace:write_trace",
            drawing.trace_arguments,
            drawing.answer_trace,
            devices="configured",
            budgets=True,
        ),
    ),
    Command(
        "experts",
        "Draw the load of every expert in a run: a heat map, and its evenness over the steps.",
        CommandCall(f"{drawing.__name__}:draw_loads", prepare=drawing.check_experts),
        {
            "routes": CommandCall(
                f"{drawing.__name__}:draw_routes",
                answer=drawing.answer_file,
                devices="host",
                prepare=drawing.check_experts,
            )
        },
    ),
    Command(
        "report",
        "Write a page about a run: its figures, time, schedule, plan, samples and configuration.",
        CommandCall(
            "mllm_jax.pages.run.page:write_report",
            drawing.report_arguments,
            drawing.answer_file,
            config="none",
        ),
        inputs="--run DIR",
        has_config=False,
        has_overrides=False,
    ),
    Command(
        "simulate",
        "Predict a step on hardware that need not be here, with idle time by kind.",
        CommandCall(
            f"{planning.__name__}:simulate_configured",
            planning.simulation_arguments,
            planning.answer_simulation,
            budgets=True,
            prepare=planning.check_simulation,
        ),
        {
            "ablate": CommandCall(f"{planning.__name__}:simulate_systems", budgets=True),
            "mixture": CommandCall(f"{planning.__name__}:simulate_systems", budgets=True),
        },
    ),
    Command(
        "calibrate",
        "Measure this machine for the cost model: a description for simulate --hardware.",
        CommandCall(
            "mllm_jax.calibrate.measure:calibrate_hardware",
            planning.calibration_arguments,
            planning.answer_calibration,
            devices="configured",
            one_thread=True,
            budgets=True,
        ),
        {
            "slices": CommandCall(
                "mllm_jax.calibrate.slices.measure:calibrate_slices",
                planning.slice_arguments,
                planning.answer_slices,
                budgets=True,
            )
        },
    ),
    Command(
        "plan",
        "Search the fastest plans for the model, the rows of a step and the devices.",
        CommandCall(
            "mllm_jax.plan.report:plan_run",
            planning.plan_arguments,
            planning.answer_plan,
            config="unplanned",
            devices="host",
            prepare=planning.check_plan,
        ),
        {
            "slices": CommandCall(
                "mllm_jax.plan.groups.report:plan_groups",
                planning.group_arguments,
                planning.answer_groups,
                config="unplanned",
                devices="host",
                prepare=planning.check_plan,
            )
        },
    ),
    Command(
        "compile",
        "Compile the train step for accelerators that are not here, or for later runs (--save).",
        CommandCall(
            "mllm_jax.compile.report:compile_for_target",
            planning.compilation_arguments,
            planning.answer_compilation,
            devices="compiler",
            budgets=True,
            prepare=planning.check_compilation,
        ),
        {
            "save": CommandCall(
                "mllm_jax.compile.save:save_step",
                planning.saved_step_arguments,
                planning.answer_saved_step,
                devices="configured",
                budgets=True,
                prepare=planning.check_compilation,
            )
        },
        inputs="--config FILE (--topology TOPOLOGY | --save DIR)",
    ),
    Command(
        "submit",
        "Write the job of a run for Slurm or Kubernetes, and submit it (--go).",
        CommandCall(
            "mllm_jax.submit.submit:submit_run",
            planning.submission_arguments,
            planning.answer_submission,
        ),
        inputs="--cluster NAME|FILE --nodes N --config FILE",
    ),
    Command(
        "import",
        "Make a run that begins with released weights: fetch, check and configure them.",
        CommandCall(
            "mllm_jax.release.import_weights:import_release",
            models.import_arguments,
            models.answer_import,
            config="none",
        ),
        inputs="--from FOLDER|HUB_ID --out DIR",
        has_config=False,
        has_overrides=False,
    ),
    Command(
        "export",
        "Write the newest checkpoint of a run as a released one: safetensors, config, tokenizer.",
        CommandCall(
            "mllm_jax.release.export_weights:export_weights",
            models.export_arguments,
            models.answer_export,
            config="none",
            devices="host",
        ),
        {
            "adapters": CommandCall(
                "mllm_jax.release.export_adapters:export_adapters",
                models.adapter_arguments,
                models.answer_export,
                config="none",
                devices="host",
            )
        },
        inputs="--run DIR --out DIR",
        has_config=False,
        has_overrides=False,
    ),
)

#: Commands by name, in the order of the help.
COMMANDS: Mapping[str, Command] = {command.name: command for command in _ROWS}
