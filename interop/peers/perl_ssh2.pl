# What Perl's Net::SSH2 (libssh2) does. Arguments: port, user, directory of the lab.
use strict;
use warnings;
use Fcntl qw(O_WRONLY O_CREAT O_TRUNC);
use Net::SSH2;

my ($port, $user, $lab) = @ARGV;
my $far = "$lab/far";

sub slurp { my ($name) = @_; open(my $file, '<:raw', $name) or die "$name: $!"; local $/; my $data = <$file>; $data // '' }

my $ssh = Net::SSH2->new(timeout => 30_000);
$ssh->connect('127.0.0.1', $port) or $ssh->die_with_error('connect');
$ssh->auth_publickey($user, "$lab/user_rsa.pem.pub", "$lab/user_rsa.pem") or $ssh->die_with_error('login');
my $sftp = $ssh->sftp or $ssh->die_with_error('sftp');

sub put {
    my ($name, $data) = @_;
    my $file = $sftp->open($name, O_WRONLY | O_CREAT | O_TRUNC) or $ssh->die_with_error("open $name");
    my $at = 0;
    while ($at < length $data) {
        my $sent = $file->write(substr($data, $at, 1 << 20)) or $ssh->die_with_error("write $name");
        $at += $sent;
    }
}

sub get {
    my ($name) = @_;
    my $file = $sftp->open($name) or $ssh->die_with_error("open $name");
    my $data = '';
    while ($file->read(my $part, 1 << 18)) { $data .= $part }
    $data;
}

put("$far/up", slurp("$lab/blob"));
open(my $down, '>:raw', "$lab/down") or die $!;
print $down get("$far/up");
close $down or die $!;
$sftp->mkdir("$far/small") or $ssh->die_with_error('mkdir');
for my $path (glob "$lab/small/*") {
    my ($name) = $path =~ m{([^/]+)$};
    put("$far/small/$name", slurp($path));
    die "$name differs" unless get("$far/small/$name") eq slurp($path);
}
# libssh2 sends the two in the order in which they are given. Debian's 1.10.0-3+deb12u1 takes every answer to that for a
# broken one, sshd's too, when the link has been made.
sub link_to {
    my ($target, $name) = @_;
    $sftp->symlink($target, $name) or ($ssh->error)[0] == -31 or $ssh->die_with_error("symlink $name");
    die "readlink $name" unless $sftp->readlink($name) eq $target;
}
link_to("$far/up", "$far/link");
link_to('nowhere', "$far/link2");
put("$far/moved.from", 'moved');
$sftp->rename("$far/moved.from", "$far/moved") or $ssh->die_with_error('rename');
put("$far/gone", 'gone');
$sftp->unlink("$far/gone") or $ssh->die_with_error('unlink');
# The old way to copy, too.
$ssh->scp_put("$lab/blob", "$far/scp") or $ssh->die_with_error('scp_put');
$ssh->scp_get("$far/scp", "$lab/scp.down") or $ssh->die_with_error('scp_get');
die 'scp differs' unless slurp("$lab/scp.down") eq slurp("$lab/blob");
print "done\n";
