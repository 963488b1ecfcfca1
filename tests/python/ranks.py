"""Ranks of one machine: processes with gloo, forked after torchrec is imported."""

import multiprocessing
import os
import socket
import traceback

import torch
import torch.distributed as dist

TIMEOUT_S = 120


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _work(queue, rank, world_size, local_world_size, port, function, arguments):
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank % local_world_size),
        "LOCAL_WORLD_SIZE": str(local_world_size),
        "TORCHREC_RESOLVED_POD_SIZE": "1",
    }
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", rank=rank, world_size=world_size)
        queue.put((rank, function(rank, *arguments), None))
        dist.destroy_process_group()
    except BaseException:
        queue.put((rank, None, traceback.format_exc()))
    queue.close()
    queue.join_thread()
    os._exit(0)


def run(world_size, function, *arguments, local_world_size=None):
    """[function(rank, *arguments) of every rank]; fails with the traces of the ranks that failed."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    port = _free_port()
    processes = [
        context.Process(
            target=_work,
            args=(queue, rank, world_size, local_world_size or world_size, port, function, arguments),
            daemon=True,
        )
        for rank in range(world_size)
    ]
    for process in processes:
        process.start()
    try:
        answers = dict.fromkeys(range(world_size))
        errors = []
        for _ in range(world_size):
            rank, answer, error = queue.get(timeout=TIMEOUT_S)
            answers[rank] = answer
            if error:
                errors.append(f"rank {rank}: {error}")
        assert not errors, "\n".join(errors)
        return [answers[rank] for rank in range(world_size)]
    finally:
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
