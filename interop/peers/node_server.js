// SFTP by Node's ssh2 for any key, paths as they are. Arguments: directory of the lab, directory of the npm packages, and perhaps
// `unordered`: requests do not wait for each other, and writing takes longest. Prints its port, ends with stdin.
'use strict';
const fs = require('fs');
const path = require('path');
const [lab, modules, order] = process.argv.slice(2);
const { Server, utils } = require(path.join(modules, 'ssh2'));
const { STATUS_CODE, OPEN_MODE } = utils.sftp;

const attrsOf = (stat) => ({
  mode: stat.mode, uid: stat.uid, gid: stat.gid, size: stat.size,
  atime: Math.floor(stat.atimeMs / 1000), mtime: Math.floor(stat.mtimeMs / 1000),
});

function serve(sftp) {
  const open = new Map();
  let next = 0;
  const handle = (what) => {
    const name = Buffer.alloc(4);
    name.writeUInt32BE(next);
    open.set(next++, what);
    return name;
  };
  const of = (name) => (name.length === 4 ? open.get(name.readUInt32BE(0)) : undefined);
  const fail = (id, error) => {
    const codes = { ENOENT: STATUS_CODE.NO_SUCH_FILE, EACCES: STATUS_CODE.PERMISSION_DENIED };
    sftp.status(id, codes[error.code] ?? STATUS_CODE.FAILURE, error.message);
  };
  const status = (id) => (error) => (error ? fail(id, error) : sftp.status(id, STATUS_CODE.OK));
  const change = (id, name, attrs) => {
    try {
      if (attrs.size !== undefined) fs.truncateSync(name, attrs.size);
      if (attrs.mode !== undefined) fs.chmodSync(name, attrs.mode & 0o7777);
      if (attrs.mtime !== undefined) fs.utimesSync(name, attrs.atime, attrs.mtime);
      sftp.status(id, STATUS_CODE.OK);
    } catch (error) {
      fail(id, error);
    }
  };
  // Requests of one handle are carried out in their order, as the draft wants it: each begins when the one before it has ended.
  const inOrder = (id, name, act) => {
    const file = of(name);
    if (!file) return sftp.status(id, STATUS_CODE.FAILURE);
    if (order === 'unordered') return act(file, () => {});
    file.last = (file.last ?? Promise.resolve()).then(() => new Promise((done) => act(file, done)));
  };
  sftp.on('OPEN', (id, name, flags, attrs) => {
    const { O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_EXCL, O_APPEND } = fs.constants;
    const writes = flags & OPEN_MODE.READ ? O_RDWR : O_WRONLY;
    let how = flags & OPEN_MODE.WRITE ? writes : O_RDONLY;
    for (const [mode, bit] of [['CREAT', O_CREAT], ['TRUNC', O_TRUNC], ['EXCL', O_EXCL], ['APPEND', O_APPEND]]) {
      if (flags & OPEN_MODE[mode]) how |= bit;
    }
    fs.open(name, how, attrs.mode ?? 0o666, (error, fd) => (error ? fail(id, error) : sftp.handle(id, handle({ fd, name }))));
  });
  sftp.on('READ', (id, name, offset, length) => {
    inOrder(id, name, (file, done) => fs.read(file.fd, Buffer.alloc(Math.min(length, 1 << 18)), 0, Math.min(length, 1 << 18), offset, (error, count, data) => {
      done();
      if (error) return fail(id, error);
      if (count === 0) return sftp.status(id, STATUS_CODE.EOF);
      sftp.data(id, data.subarray(0, count));
    }));
  });
  sftp.on('WRITE', (id, name, offset, data) => {
    const copy = Buffer.from(data);
    const write = (file, done) => fs.write(file.fd, copy, 0, copy.length, offset, (error, count) => {
      done();
      if (error) return fail(id, error);
      sftp.status(id, count === copy.length ? STATUS_CODE.OK : STATUS_CODE.FAILURE);
    });
    const late = (file, done) => setTimeout(() => write(file, done), 20);
    inOrder(id, name, order === 'unordered' ? late : write);
  });
  sftp.on('CLOSE', (id, name) => {
    inOrder(id, name, (file, done) => {
      open.delete(name.readUInt32BE(0));
      done();
      if (file.fd === undefined) return sftp.status(id, STATUS_CODE.OK);
      fs.close(file.fd, status(id));
    });
  });
  sftp.on('FSTAT', (id, name) => {
    inOrder(id, name, (file, done) => fs.fstat(file.fd, (error, stat) => {
      done();
      if (error) return fail(id, error);
      sftp.attrs(id, attrsOf(stat));
    }));
  });
  sftp.on('FSETSTAT', (id, name, attrs) => {
    inOrder(id, name, (file, done) => {
      change(id, file.name, attrs);
      done();
    });
  });
  sftp.on('SETSTAT', change);
  for (const [event, stat] of [['STAT', fs.stat], ['LSTAT', fs.lstat]]) {
    sftp.on(event, (id, name) => stat(name, (error, got) => (error ? fail(id, error) : sftp.attrs(id, attrsOf(got)))));
  }
  sftp.on('OPENDIR', (id, name) => fs.readdir(name, (error, names) => (error ? fail(id, error) : sftp.handle(id, handle({ dir: name, names })))));
  sftp.on('READDIR', (id, name) => {
    const listing = of(name);
    if (!listing || !listing.names) return sftp.status(id, STATUS_CODE.FAILURE);
    if (listing.names.length === 0) return sftp.status(id, STATUS_CODE.EOF);
    sftp.name(id, listing.names.splice(0, 50).map((filename) => {
      const stat = fs.lstatSync(path.join(listing.dir, filename));
      return { filename, longname: filename, attrs: attrsOf(stat) };
    }));
  });
  sftp.on('end', () => sftp.end());
  sftp.on('REALPATH', (id, name) => sftp.name(id, [{ filename: path.resolve(name), longname: '', attrs: {} }]));
  sftp.on('READLINK', (id, name) => fs.readlink(name, (error, to) => (error ? fail(id, error) : sftp.name(id, [{ filename: to, longname: '', attrs: {} }]))));
  sftp.on('SYMLINK', (id, link, target) => fs.symlink(target, link, status(id)));
  sftp.on('REMOVE', (id, name) => fs.unlink(name, status(id)));
  sftp.on('RMDIR', (id, name) => fs.rmdir(name, status(id)));
  sftp.on('MKDIR', (id, name, attrs) => fs.mkdir(name, attrs.mode ?? 0o777, status(id)));
  sftp.on('RENAME', (id, from, to) => (fs.existsSync(to) ? sftp.status(id, STATUS_CODE.FAILURE) : fs.rename(from, to, status(id))));
}

const keys = ['host_ed25519', 'host_rsa', 'host_ecdsa'].map((name) => fs.readFileSync(path.join(lab, name)));
const server = new Server({ hostKeys: keys }, (client) => {
  client.on('error', () => {});
  client.on('authentication', (cx) => (cx.method === 'publickey' ? cx.accept() : cx.reject(['publickey'])));
  client.on('session', (accept) => accept().on('sftp', (acceptSftp) => serve(acceptSftp())));
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
