"""Speaks the authentication protocol message by message, and prints each answer of the server.

usage: paramiko_methods.py PORT USER PASSWORD STEP...

A step is one request (RFC 4252, RFC 4256):
  none                the method none
  FILE, FILE?, FILE!  the key of this file: with a signature, only asked about, with a signature that is wrong
  password, password! the right password, a wrong one
  change              a password with its replacement
  kbd, kbd!           keyboard-interactive, answered with the right password or a wrong one
  kbd:NAME            like kbd, with this submethod
  ask                 keyboard-interactive, whose question stays without an answer
  answer              answers although nothing was asked
"""

import queue
import socket
import sys

import paramiko
from paramiko.message import Message

SERVICE_ACCEPT, FAILURE, SUCCESS, BANNER, PK_OK_OR_INFO, RESPONSE = 6, 51, 52, 53, 60, 61


class Answers:
    """Stands in for Paramiko's own authentication: collects messages."""

    def __init__(self, answers):
        self._client_handler_table = {
            kind: (lambda _self, message, kind=kind: answers.put((kind, message)))
            for kind in (SERVICE_ACCEPT, FAILURE, SUCCESS, BANNER, PK_OK_OR_INFO)
        }

    _handler_table = property(lambda self: self._client_handler_table)

    def is_authenticated(self):
        return False

    def abort(self):
        pass


def request(user, method):
    message = Message()
    message.add_byte(bytes([50]))
    for field in (user, "ssh-connection", method):
        message.add_string(field)
    return message


def key_request(transport, user, path, ending):
    key = paramiko.Ed25519Key.from_private_key_file(path)
    message = request(user, "publickey")
    message.add_boolean(ending != "?")
    message.add_string("ssh-ed25519")
    message.add_string(key.asbytes())
    if ending == "?":
        return message
    signed = Message()
    signed.add_string(transport.session_id)
    signature = key.sign_ssh_data(signed.asbytes() + message.asbytes()).asbytes()
    if ending == "!":
        signature = signature[:-1] + bytes([signature[-1] ^ 1])
    message.add_string(signature)
    return message


def main():
    port, user, password, steps = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    transport = paramiko.Transport(socket.create_connection(("127.0.0.1", port)))
    transport.start_client(timeout=60)
    answers = queue.Queue()
    transport.auth_handler = Answers(answers)

    def send(message):
        """Sends a message; returns the next answer that is no banner, or None at the end."""
        transport._send_message(message)
        while True:
            try:
                answer = answers.get(timeout=0.05)
            except queue.Empty:
                if not transport.is_active() and answers.empty():
                    return None
                continue
            if answer[0] != BANNER:
                return answer

    def shown(answer):
        if answer is None:
            return "end"
        kind, message = answer
        if kind == FAILURE:
            methods, partial = message.get_text(), message.get_boolean()
            return f"failure {methods}{' partial' if partial else ''}"
        return {SUCCESS: "success", SERVICE_ACCEPT: "service"}.get(kind, "60")

    def respond(word):
        message = Message()
        message.add_byte(bytes([RESPONSE]))
        message.add_int(1)
        message.add_string(word)
        return message

    service = Message()
    service.add_byte(bytes([5]))
    service.add_string("ssh-userauth")
    send(service)
    for step in steps:
        name, _, submethod = step.partition(":")
        ending = name[-1] if name[-1] in "!?" else ""
        name = name.rstrip("!?")
        word = "wrong" if ending == "!" else password
        if name == "none":
            message = request(user, "none")
        elif name in ("password", "change"):
            message = request(user, "password")
            message.add_boolean(name == "change")
            message.add_string(word)
            if name == "change":
                message.add_string("another")
        elif name in ("kbd", "ask"):
            message = request(user, "keyboard-interactive")
            message.add_string("")
            message.add_string(submethod)
        elif name == "answer":
            message = respond(word)
        else:
            message = key_request(transport, user, name, ending)
        answer = send(message)
        # One question; PAM's conversation may end with a round without any.
        while name == "kbd" and answer and answer[0] == PK_OK_OR_INFO:
            fields = answer[1]
            fields.get_text(), fields.get_text(), fields.get_text()
            if fields.get_int():
                answer = send(respond(word))
            else:
                empty = Message()
                empty.add_byte(bytes([RESPONSE]))
                empty.add_int(0)
                answer = send(empty)
        print(f"{step.rsplit('/', 1)[-1]}: {shown(answer)}", flush=True)
        if answer is None or answer[0] == SUCCESS:
            break
    transport.close()


main()
