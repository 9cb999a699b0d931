import com.sshtools.client.SshClient;
import com.sshtools.client.scp.ScpClient;
import com.sshtools.client.sftp.SftpClient;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;

/** What Maverick Synergy does, by SFTP and scp. Arguments: port, user, directory of the lab. */
public class MaverickClient {
    static void check(boolean ok, String what) {
        if (!ok) {
            throw new IllegalStateException(what);
        }
    }

    static boolean same(String one, String other) throws IOException {
        return Arrays.equals(Files.readAllBytes(Paths.get(one)), Files.readAllBytes(Paths.get(other)));
    }

    static void write(SftpClient sftp, String name, String text) throws Exception {
        sftp.put(new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)), name);
    }

    public static void main(String[] args) throws Exception {
        String lab = args[2];
        String far = lab + "/far/";
        File key = new File(lab, "user_ed25519");
        try (SshClient ssh = SshClient.SshClientBuilder.create().withTarget("127.0.0.1", Integer.parseInt(args[0]))
                .withUsername(args[1]).withPrivateKeyFile(key).build()) {
            SftpClient sftp = SftpClient.SftpClientBuilder.create().withClient(ssh).build();
            sftp.put(lab + "/blob", far + "up");
            sftp.get(far + "up", lab + "/down");
            sftp.mkdir(far + "small");
            Files.createDirectory(Paths.get(lab, "small.down"));
            for (String name : new File(lab, "small").list()) {
                sftp.put(lab + "/small/" + name, far + "small/" + name);
                sftp.get(far + "small/" + name, lab + "/small.down/" + name);
                check(same(lab + "/small/" + name, lab + "/small.down/" + name), name);
            }
            // Over a longer file.
            sftp.put(lab + "/blob", far + "longer");
            sftp.put(lab + "/small/file7", far + "longer");
            check(same(lab + "/small/file7", far + "longer"), "over a longer file");
            sftp.symlink(far + "up", far + "link");
            sftp.symlink("nowhere", far + "link2");
            check(sftp.getSymbolicLinkTarget(far + "link").equals(far + "up"), "readlink");
            write(sftp, far + "moved.from", "moved");
            sftp.rename(far + "moved.from", far + "moved");
            write(sftp, far + "gone", "gone");
            sftp.rm(far + "gone");
            sftp.exit();
            ScpClient scp = new ScpClient(new File(lab), ssh);
            scp.put(lab + "/blob", far, false);
            scp.get(lab + "/scp.down", new String[] {far + "blob"}, false);
            check(same(lab + "/blob", lab + "/scp.down"), "scp");
        }
        System.out.println("done");
        System.exit(0);
    }
}
