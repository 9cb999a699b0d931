import com.jcraft.jsch.ChannelSftp;
import com.jcraft.jsch.JSch;
import com.jcraft.jsch.Session;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.nio.file.Files;
import java.util.Arrays;

/** What JSch does. Arguments: port, user, directory of the lab. */
public class JschClient {
    static void check(boolean ok, String what) {
        if (!ok) {
            throw new IllegalStateException(what);
        }
    }

    public static void main(String[] args) throws Exception {
        String lab = args[2];
        String far = lab + "/far/";
        JSch jsch = new JSch();
        jsch.addIdentity(lab + "/user_rsa.pem");
        Session session = jsch.getSession(args[1], "127.0.0.1", Integer.parseInt(args[0]));
        session.setConfig("StrictHostKeyChecking", "no");
        session.connect(10_000);
        ChannelSftp sftp = (ChannelSftp) session.openChannel("sftp");
        sftp.connect(10_000);
        sftp.put(lab + "/blob", far + "up");
        sftp.get(far + "up", lab + "/down");
        sftp.mkdir(far + "small");
        for (File file : new File(lab + "/small").listFiles()) {
            sftp.put(file.getPath(), far + "small/" + file.getName());
            ByteArrayOutputStream back = new ByteArrayOutputStream();
            sftp.get(far + "small/" + file.getName(), back);
            check(Arrays.equals(back.toByteArray(), Files.readAllBytes(file.toPath())), file.getName());
        }
        check(sftp.ls(far + "small").size() >= new File(lab + "/small").list().length, "names");
        sftp.symlink(far + "up", far + "link");
        check(sftp.readlink(far + "link").equals(far + "up"), "readlink");
        sftp.symlink("nowhere", far + "link2");
        sftp.put(new ByteArrayInputStream("moved".getBytes()), far + "moved.from");
        sftp.rename(far + "moved.from", far + "moved");
        sftp.put(new ByteArrayInputStream("gone".getBytes()), far + "gone");
        sftp.rm(far + "gone");
        session.disconnect();
        System.out.println("done");
    }
}
