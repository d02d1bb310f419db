"""Building blocks that know nothing of reinforcement learning: arrays, threads, parameters, files.

`arrays` names types; `jit` and `parallel` run work in threads and processes; `fixed_point` adds in
any order; `params` and `registry` describe interchangeable parts; `atomic`, `lock` and `spool`
write files; `archive` and `validate` are the format of rlvc's files; `checkpoint_store` is
what runs resume from. The room imports nothing but `rlvc.errors`. It exports no names, so that
importing one of its modules stays cheap.
"""
