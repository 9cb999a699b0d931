#!/usr/bin/env escript
%% SFTP by Erlang/OTP's ssh for holders of the lab's keys. Argument: directory of the lab. Prints its port, ends with stdin.

main([Lab]) ->
    {ok, _} = application:ensure_all_started(ssh),
    System = filename:join(Lab, "erlang"),
    ok = filelib:ensure_dir(filename:join(System, "x")),
    {ok, _} = file:copy(filename:join(Lab, "host_ecdsa"), filename:join(System, "ssh_host_ecdsa_key")),
    ok = file:change_mode(filename:join(System, "ssh_host_ecdsa_key"), 8#600),
    {ok, _} = file:copy(filename:join(Lab, "authorized_keys"), filename:join(System, "authorized_keys")),
    {ok, Daemon} = ssh:daemon({127, 0, 0, 1}, 0, [
        {system_dir, System}, {user_dir, System}, {auth_methods, "publickey"},
        {subsystems, [ssh_sftpd:subsystem_spec([{root, "/"}])]}
    ]),
    {ok, Info} = ssh:daemon_info(Daemon),
    io:format("~p~n", [proplists:get_value(port, Info)]),
    io:get_line(""),
    halt(0).
