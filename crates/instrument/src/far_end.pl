use IO::Socket::IP;
$| = 1;
$SIG{CHLD} = "IGNORE";
$s = IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => $ARGV[1], Listen => 8, ReuseAddr => 1)
    or die "port $ARGV[1] at $ARGV[0]: $@\n";
print "ready $ARGV[0] ", $s->sockport, " perl\n";
$k = fork;
if (!$k) {
    setpgrp;
    while ($c = $s->accept) {
        next if fork;
        $l = "";
        while ($l !~ /\n/ && length $l < 99 && sysread($c, $b, 1)) { $l .= $b }
        exit if $l !~ /^$ENV{T} ([DU])\n/;
        if ($1 eq "D") { $z = "\0" x 262144; 1 while syswrite($c, $z) }
        else { $n = 0; $n += $g while $g = sysread($c, $b, 262144); syswrite($c, "$n\n") }
        exit;
    }
    exit;
}
1 while sysread(STDIN, $b, 65536);
kill TERM => -$k;
