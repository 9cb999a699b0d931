import os, socket, sys, threading
def serve(c):
    try:
        line = b""
        while not line.endswith(b"\n") and len(line) < 99:
            got = c.recv(1)
            if not got:
                return
            line += got
        words = line.split()
        if len(words) != 2 or words[0] != os.environ["T"].encode():
            return
        if words[1] == b"D":
            zeros = bytes(1 << 18)
            while True:
                c.sendall(zeros)
        count, block = 0, bytearray(1 << 18)
        while True:
            got = c.recv_into(block)
            if not got:
                break
            count += got
        c.sendall(b"%d\n" % count)
    except OSError:
        pass
    finally:
        c.close()
def accept():
    while True:
        threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
address, port = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    s.bind((address, port))
except OSError as error:
    sys.exit("port %d at %s: %s" % (port, address, error.strerror))
s.listen(8)
print("ready", address, s.getsockname()[1], "python3")
threading.Thread(target=accept, daemon=True).start()
while os.read(0, 65536):
    pass
os._exit(0)
