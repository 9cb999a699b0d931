// What Node's ssh2 does as a client. Arguments: port, user, directory of the lab, directory of the npm packages.
'use strict';
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const { promisify } = require('util');
const [port, user, lab, modules] = process.argv.slice(2);
const { Client } = require(path.join(modules, 'ssh2'));
const here = (name) => path.join(lab, name);
const far = (name) => path.join(lab, 'far', name);

async function work(sftp) {
  const call = (name, ...args) => promisify(sftp[name]).call(sftp, ...args);
  await call('fastPut', here('blob'), far('up'));
  await call('fastGet', far('up'), here('down'));
  await call('mkdir', far('small'));
  const names = fs.readdirSync(here('small'));
  // All at once, as programs of this kind do.
  await Promise.all(names.map((name) => call('writeFile', far(`small/${name}`), fs.readFileSync(here(`small/${name}`)))));
  const back = await Promise.all(names.map((name) => call('readFile', far(`small/${name}`))));
  names.forEach((name, at) => assert(back[at].equals(fs.readFileSync(here(`small/${name}`))), name));
  const listed = (await call('readdir', far('small'))).map((entry) => entry.filename);
  assert.deepStrictEqual(listed.filter((name) => !name.startsWith('.')).sort(), names.sort());
  await call('symlink', far('up'), far('link'));
  assert.strictEqual(await call('readlink', far('link')), far('up'));
  // To nothing: only the order of the arguments tells which is which.
  await call('symlink', 'nowhere', far('link2'));
  await call('writeFile', far('moved.from'), 'moved');
  await call('rename', far('moved.from'), far('moved'));
  await call('writeFile', far('gone'), 'gone');
  await call('unlink', far('gone'));
  console.log('done');
}

const client = new Client();
client.on('ready', () => client.sftp((error, sftp) => {
  if (error) throw error;
  work(sftp).then(() => client.end(), (problem) => { console.error(problem); process.exit(1); });
}));
client.connect({ host: '127.0.0.1', port: +port, username: user, privateKey: fs.readFileSync(here('user_ed25519')) });
