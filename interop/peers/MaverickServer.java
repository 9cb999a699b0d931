import com.sshtools.common.files.direct.NioFileFactory.NioFileFactoryBuilder;
import com.sshtools.common.publickey.SshKeyUtils;
import com.sshtools.server.InMemoryPublicKeyAuthenticator;
import com.sshtools.server.SshServer;
import java.io.File;
import java.net.InetAddress;
import java.nio.file.Path;
import java.nio.file.Paths;

/** SFTP and scp by Maverick Synergy for the holder of the lab's Ed25519 key. Arguments: directory of the lab, user. Prints its port, ends with stdin. */
public class MaverickServer {
    public static void main(String[] args) throws Exception {
        Path lab = Paths.get(args[0]);
        SshServer server = new SshServer(InetAddress.getLoopbackAddress(), 0);
        for (String name : new String[] {"host_ed25519", "host_ecdsa", "host_rsa"}) {
            server.addHostKey(SshKeyUtils.getPrivateKey(lab.resolve(name).toFile(), ""));
        }
        // It keeps one key of each user.
        server.addAuthenticator(new InMemoryPublicKeyAuthenticator()
                .addAuthorizedKey(args[1], SshKeyUtils.getPublicKey(lab.resolve("user_ed25519.pub"))));
        server.setFileFactory(connection -> NioFileFactoryBuilder.create().withHome(new File("/")).withoutSandbox().build());
        server.enableSCP();
        server.start();
        System.out.println(server.getPort());
        while (System.in.read() >= 0) {
            // Nothing is said there; its end is waited for.
        }
        System.exit(0);
    }
}
