"""Talks to TinyTitanCLI over a pseudo-terminal. Arguments: program, install, an install whose answers
never end, and one that says "\\x1b[31m\\x9b" for " Par"."""
import os
import pty
import select
import signal
import sys
import termios
import time

LIMIT = 120  # seconds until a text that must come is given up


class Terminal:
    def __init__(self, *argv, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(env)
            os.execv(argv[0], argv)
        self.seen = b""
        self.all = b""

    def read(self):
        if not select.select([self.fd], [], [], LIMIT)[0]:
            raise SystemExit("nothing came for %d s after %r" % (LIMIT, self.all[-400:]))
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        self.seen += data
        self.all += data
        return data

    def expect(self, text):
        text = text.encode()
        end = time.monotonic() + LIMIT
        while text not in self.seen:
            if not self.read() or time.monotonic() > end:
                raise SystemExit("%r did not come, only %r" % (text, self.seen[-400:]))
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def type(self, text):
        os.write(self.fd, text if isinstance(text, bytes) else text.encode())

    def end(self):
        while self.read():
            pass
        status = os.waitpid(self.pid, 0)[1]
        assert os.WIFEXITED(status), "ended by a signal: %d" % status
        return os.WEXITSTATUS(status)


def dialogue(program, model, **env):
    t = Terminal(program, "--model", model, "--interactive", "--temperature", "0", **env)
    t.expect("/help lists the commands")
    t.expect("> ")
    return t


program, model, endless, painted = sys.argv[1:]

# Editing: a slip is taken back, Ctrl-A and text in front, a character of several bytes removed.
t = dialogue(program, model)
t.type("is the capital of Japam\x7fn?\u00e9\u6f22\x7f\x7f\x01What \r")
t.expect("The capital of Japan is Tokyo.\r\n")
t.expect("> ")
# History: the line before, with another end.
t.type("\x1b[A\r")
t.expect("What is the capital of Japan?")
t.expect("\r\n")
t.expect("> ")
# Ctrl-C at the prompt drops the line and says how to leave.
t.type("never sent\x03")
t.expect("/exit or Ctrl-D")
t.expect("> ")
t.type("/reset\r")
t.expect("a new conversation")
t.expect("> ")
t.type("/system caf\u00e9 \u6f22\u5b57\r")
t.expect("> ")
t.type("\x04")
assert t.end() == 0

history = os.path.join(os.environ["XDG_STATE_HOME"], "tinytitan", "history")
lines = open(history, encoding="utf-8").read()
assert "What" in lines and "never" not in lines, lines

# The history is there the next time, also in a locale that knows nothing but ASCII.
t = dialogue(program, model, LC_ALL="C")
t.type("\x1b[A\x1b[A\x1b[A\r")
t.expect("What is the capital of Japan?")
t.expect("The capital of Japan is Tokyo.")
t.expect("> ")
t.type("/exit\r")
assert t.end() == 0

# Two dialogues at once: the file keeps the lines of both.
a, b = dialogue(program, model), dialogue(program, model)
for t, text in ((a, "one"), (b, "two"), (a, "three"), (b, "four")):
    t.type("/system %s\r" % text)
    t.expect("/system %s\r\n" % text)
    t.expect("> ")
for t in (a, b):
    t.type("\x04")
    assert t.end() == 0
lines = open(history, encoding="utf-8").read()
for text in ("What", "one", "two", "three", "four"):
    assert text in lines, (text, lines)
assert os.listdir(os.path.dirname(history)) == ["history"]

# Control characters of a model are shown, not obeyed; so are those of a message.
t = Terminal(program, "--model", painted, "--raw", "--prompt", "The capital of France is",
             "--temperature", "0", "--max-new", "1", "--quiet")
assert t.end() == 0
assert t.all == "^[[31m\ufffd\r\n".encode(), t.all
t = Terminal(program, "--model", "/no\x1b[31mwhere", "--prompt", "x")
assert t.end() == 1
assert b"/no^[[31mwhere" in t.all and b"\x1b" not in t.all, t.all

# SIGTERM at the prompt: it is told, and the terminal is as the shell had it.
t = dialogue(program, model)
assert not termios.tcgetattr(t.fd)[3] & termios.ICANON
os.kill(t.pid, signal.SIGTERM)
t.expect("ended by SIGTERM")
assert t.end() == 143
assert termios.tcgetattr(t.fd)[3] & (termios.ICANON | termios.ECHO)

# Ctrl-C in an answer, twice; the dialogue goes on. A stop and a continuation do no harm either.
t = Terminal(program, "--model", endless, "--interactive", "--temperature", "0",
             "--max-new", "8000")
t.expect("> ")
for _ in range(2):
    t.type("Tell me a story.\r")
    t.expect("Tell me a story.\r\n")
    t.read()
    t.type("\x03")
    t.expect("interrupted")
    t.expect("> ")
os.kill(t.pid, signal.SIGSTOP)
os.kill(t.pid, signal.SIGCONT)
os.kill(t.pid, signal.SIGWINCH)
t.type("/help\r")
t.expect("/tool TEXT")
t.expect("> ")
t.type("\x04")
assert t.end() == 0
