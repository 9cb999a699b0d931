import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.EnumSet;
import net.schmizz.sshj.DefaultConfig;
import net.schmizz.sshj.SSHClient;
import net.schmizz.sshj.sftp.OpenMode;
import net.schmizz.sshj.sftp.RemoteFile;
import net.schmizz.sshj.sftp.SFTPClient;
import net.schmizz.sshj.transport.verification.PromiscuousVerifier;

/** What sshj does. Arguments: port, user, directory of the lab. */
public class SshjClient {
    static void check(boolean ok, String what) {
        if (!ok) {
            throw new IllegalStateException(what);
        }
    }

    static void write(SFTPClient sftp, String name, String text) throws IOException {
        try (RemoteFile file = sftp.open(name, EnumSet.of(OpenMode.WRITE, OpenMode.CREAT))) {
            byte[] data = text.getBytes(StandardCharsets.UTF_8);
            file.write(0, data, 0, data.length);
        }
    }

    public static void main(String[] args) throws Exception {
        String lab = args[2];
        String far = lab + "/far/";
        try (SSHClient ssh = new SSHClient(new DefaultConfig())) {
            ssh.addHostKeyVerifier(new PromiscuousVerifier());
            ssh.connect("127.0.0.1", Integer.parseInt(args[0]));
            ssh.authPublickey(args[1], lab + "/user_ed25519");
            try (SFTPClient sftp = ssh.newSFTPClient()) {
                sftp.put(lab + "/blob", far + "up");
                sftp.get(far + "up", lab + "/down");
                sftp.put(lab + "/small", far + "small");
                sftp.get(far + "small", lab + "/small.down");
                for (File file : new File(lab + "/small").listFiles()) {
                    byte[] back = Files.readAllBytes(Paths.get(lab, "small.down", file.getName()));
                    check(Arrays.equals(back, Files.readAllBytes(file.toPath())), file.getName());
                }
                check(sftp.ls(far + "small").size() == new File(lab + "/small").list().length, "names");
                sftp.symlink(far + "link", far + "up");
                // As programs that were written with OpenSSH's server have it.
                sftp.symlink(far + "up", far + "link2");
                check(sftp.readlink(far + "link").equals(far + "up"), "readlink");
                write(sftp, far + "moved.from", "moved");
                sftp.rename(far + "moved.from", far + "moved");
                write(sftp, far + "gone", "gone");
                sftp.rm(far + "gone");
            }
        }
        System.out.println("done");
    }
}
