import java.net.InetAddress;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.sshd.common.keyprovider.FileKeyPairProvider;
import org.apache.sshd.server.SshServer;
import org.apache.sshd.server.config.keys.AuthorizedKeysAuthenticator;
import org.apache.sshd.sftp.server.SftpSubsystemFactory;

/** SFTP by Apache MINA for holders of the lab's keys. Argument: directory of the lab. Prints its port, ends with stdin. */
public class MinaServer {
    public static void main(String[] args) throws Exception {
        Path lab = Paths.get(args[0]);
        List<Path> keys = Arrays.asList(lab.resolve("host_ed25519"), lab.resolve("host_ecdsa"), lab.resolve("host_rsa"));
        SshServer server = SshServer.setUpDefaultServer();
        server.setHost(InetAddress.getLoopbackAddress().getHostAddress());
        server.setPort(0);
        server.setKeyPairProvider(new FileKeyPairProvider(keys));
        server.setPublickeyAuthenticator(new AuthorizedKeysAuthenticator(lab.resolve("authorized_keys")));
        server.setSubsystemFactories(Collections.singletonList(new SftpSubsystemFactory()));
        server.start();
        System.out.println(server.getPort());
        while (System.in.read() >= 0) {
            // Nothing is said there; its end is waited for.
        }
        System.exit(0);
    }
}
