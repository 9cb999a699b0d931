#!/usr/bin/env escript
%% What Erlang/OTP's SFTP client does. Arguments: port, user, directory of the lab.

main([Port, User, Lab]) ->
    {ok, _} = application:ensure_all_started(ssh),
    Dir = filename:join(Lab, "erlang_client"),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    {ok, _} = file:copy(filename:join(Lab, "user_ecdsa"), filename:join(Dir, "id_ecdsa")),
    ok = file:change_mode(filename:join(Dir, "id_ecdsa"), 8#600),
    Options = [{user, User}, {user_dir, Dir}, {silently_accept_hosts, true}, {save_accepted_host, false},
               {user_interaction, false}],
    {ok, Sftp, _} = ssh_sftp:start_channel("127.0.0.1", list_to_integer(Port), Options),
    Far = fun(Name) -> filename:join([Lab, "far", Name]) end,
    {ok, Blob} = file:read_file(filename:join(Lab, "blob")),
    ok = ssh_sftp:write_file(Sftp, Far("up"), Blob),
    {ok, Back} = ssh_sftp:read_file(Sftp, Far("up")),
    ok = file:write_file(filename:join(Lab, "down"), Back),
    {ok, Names} = file:list_dir(filename:join(Lab, "small")),
    ok = ssh_sftp:make_dir(Sftp, Far("small")),
    [begin
         {ok, Data} = file:read_file(filename:join([Lab, "small", Name])),
         ok = ssh_sftp:write_file(Sftp, Far("small/" ++ Name), Data),
         {ok, Data} = ssh_sftp:read_file(Sftp, Far("small/" ++ Name))
     end || Name <- Names],
    {ok, Listed} = ssh_sftp:list_dir(Sftp, Far("small")),
    true = lists:sort(Names) =:= lists:sort(Listed -- [".", ".."]),
    ok = ssh_sftp:make_symlink(Sftp, Far("link"), Far("up")),
    %% As programs that were written with OpenSSH's server have it.
    ok = ssh_sftp:make_symlink(Sftp, Far("up"), Far("link2")),
    ok = ssh_sftp:write_file(Sftp, Far("moved.from"), <<"moved">>),
    ok = ssh_sftp:rename(Sftp, Far("moved.from"), Far("moved")),
    ok = ssh_sftp:write_file(Sftp, Far("gone"), <<"gone">>),
    ok = ssh_sftp:delete(Sftp, Far("gone")),
    io:format("done~n"),
    halt(0).
