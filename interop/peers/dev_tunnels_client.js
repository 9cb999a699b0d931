// Microsoft's SSH library of dev tunnels: commands, a pipe in both directions, and a local forward. Arguments: port, user,
// directory of the lab, directory of the npm packages. It names the signature algorithm where its key's type belongs.
'use strict';
const fs = require('fs');
const path = require('path');
const [port, user, lab, modules] = process.argv.slice(2);
const from = (name) => require(path.join(modules, '@microsoft', name));
const { CommandRequestMessage, SshSessionConfiguration, SshStream } = from('dev-tunnels-ssh');
const { PortForwardingService, SshClient } = from('dev-tunnels-ssh-tcp');
const { importKeyFile } = from('dev-tunnels-ssh-keys');

function check(right, what) {
  if (!right) throw new Error(what);
}

async function run(session, command, input) {
  const channel = await session.openChannel();
  const request = new CommandRequestMessage();
  request.command = command;
  request.wantReply = true;
  const parts = [];
  const closed = new Promise((resolve) => channel.onClosed(resolve));
  new SshStream(channel).on('data', (data) => parts.push(Buffer.from(data)));
  check(await channel.request(request), `refused: ${command}`);
  if (input) {
    await channel.send(input);
    await channel.send(Buffer.alloc(0));
  }
  const { exitStatus } = await closed;
  return [exitStatus, Buffer.concat(parts)];
}

async function main() {
  const config = new SshSessionConfiguration();
  config.addService(PortForwardingService);
  const session = await new SshClient(config).openSession('127.0.0.1', Number(port));
  session.onAuthenticating((event) => { event.authenticationPromise = Promise.resolve({}); });
  const publicKeys = [await importKeyFile(path.join(lab, 'user_rsa.pem'))];
  check(await session.authenticate({ username: user, publicKeys }), 'no login');

  const [status, out] = await run(session, 'echo out; exit 7');
  check(status === 7 && out.toString() === 'out\n', `exit status ${status}, ${out}`);
  const blob = fs.readFileSync(path.join(lab, 'blob'));
  const [ended, back] = await run(session, 'cat', blob);
  check(ended === 0 && back.equals(blob), `cat: status ${ended}, ${back.length} bytes`);

  const greeting = await new Promise(async (resolve, reject) => {
    const stream = await session.activateService(PortForwardingService).streamToRemotePort('127.0.0.1', Number(port));
    stream.once('data', (data) => resolve(data.toString()));
    stream.once('error', reject);
  });
  check(greeting.startsWith('SSH-2.0-Longhaul'), `forward: ${greeting}`);
  console.log('done');
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
