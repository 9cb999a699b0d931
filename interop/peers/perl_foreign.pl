# What Perl's Net::SFTP::Foreign does, over a client that it starts. Arguments: directory of the lab, then the command of the client.
use strict;
use warnings;
use Net::SFTP::Foreign;

my ($lab, @command) = @ARGV;
my $sftp = Net::SFTP::Foreign->new(open2_cmd => [@command], autodie => 1);
my $far = "$lab/far";
$sftp->put("$lab/blob", "$far/up");
$sftp->get("$far/up", "$lab/down");
$sftp->rput("$lab/small", "$far/small");
$sftp->rget("$far/small", "$lab/small.down");
system('diff', '-r', "$lab/small", "$lab/small.down") == 0 or die 'small files differ';
$sftp->symlink("$far/link", "$far/up");
die 'readlink' unless $sftp->readlink("$far/link") eq "$far/up";
$sftp->symlink("$far/link2", 'nowhere');
$sftp->put_content('moved', "$far/moved.from");
$sftp->rename("$far/moved.from", "$far/moved");
$sftp->put_content('gone', "$far/gone");
$sftp->remove("$far/gone");
print "done\n";
