<?php
// What phpseclib does. Arguments: port, user, directory of the lab, 2 or 3 for the major version.
[, $port, $user, $lab, $major] = $argv;
error_reporting(E_ALL & ~E_DEPRECATED);
require $major == 3 ? 'phpseclib3/autoload.php' : 'phpseclib/autoload.php';

function check($ok, $what)
{
    if (!$ok) {
        fwrite(STDERR, "$what\n");
        exit(1);
    }
}

$secret = file_get_contents("$lab/user_rsa.pem");
if ($major == 3) {
    $key = phpseclib3\Crypt\PublicKeyLoader::load($secret);
    $sftp = new phpseclib3\Net\SFTP('127.0.0.1', (int) $port);
    $local = phpseclib3\Net\SFTP::SOURCE_LOCAL_FILE;
} else {
    $key = new phpseclib\Crypt\RSA();
    check($key->loadKey($secret), 'key');
    $sftp = new phpseclib\Net\SFTP('127.0.0.1', (int) $port);
    $local = phpseclib\Net\SFTP::SOURCE_LOCAL_FILE;
}
check($sftp->login($user, $key), 'login');
$far = "$lab/far";
check($sftp->put("$far/up", "$lab/blob", $local), 'put');
check($sftp->get("$far/up", "$lab/down"), 'get');
check($sftp->mkdir("$far/small"), 'mkdir');
$names = array_values(array_diff(scandir("$lab/small"), ['.', '..']));
foreach ($names as $name) {
    check($sftp->put("$far/small/$name", "$lab/small/$name", $local), "put $name");
}
foreach ($names as $name) {
    check($sftp->get("$far/small/$name") === file_get_contents("$lab/small/$name"), "get $name");
}
$listed = array_values(array_diff($sftp->nlist("$far/small"), ['.', '..']));
sort($listed);
check($listed == $names, 'names');
check($sftp->symlink("$far/up", "$far/link"), 'symlink');
check($sftp->readlink("$far/link") == "$far/up", 'readlink');
check($sftp->symlink('nowhere', "$far/link2"), 'symlink to nothing');
check($sftp->put("$far/moved.from", 'moved'), 'put moved');
check($sftp->rename("$far/moved.from", "$far/moved"), 'rename');
check($sftp->put("$far/gone", 'gone') && $sftp->delete("$far/gone"), 'delete');
echo "done\n";
