// Runs in a page of the browser: it opens WebTransport sessions, asks the server for files, and answers it.
//
// The program that drives the browser has what a page lacks. It answers what the page fetches: /plan.json says what to
// do, and /www/... is a file. It takes what the page tells it with tell(TEXT), a JSON text.

// A datagram may be lost, and so may the request for it. So a file that does not come is asked for again after a second,
// and given up after the fifth.
const DATAGRAM_PATIENCE = 1000;
const DATAGRAM_ATTEMPTS = 5;
// How many files are asked for at once in datagrams.
const DATAGRAMS_AT_ONCE = 16;
// How many datagrams the browser keeps for a page that has not read them. It has room for few of its own accord.
const DATAGRAM_BACKLOG = 1024;
// How long the closing of a session is left on its way before the browser ends, ms.
const FAREWELL = 100;
// The code of a session that this end closes because not all its files came.
const SESSION_FAILED = 1;
// A longer line is no request.
const LONGEST_LINE = 8192;
const NEWLINE = 10;

const encode = (text) => new TextEncoder().encode(text);
const decode = (bytes) => new TextDecoder().decode(bytes);
const after = (delay) => new Promise((resolve) => setTimeout(resolve, delay));
const report = (message) => tell(JSON.stringify(message));

class Session {
  constructor(url, name, protocols) {
    this.name = name;
    this.transport = new WebTransport(url, { protocols });
    this.transport.datagrams.incomingHighWaterMark = DATAGRAM_BACKLOG;
    // Files that are asked for, and come on a stream or in a datagram of their own: what takes them.
    this.expected = new Map();
    this.isOver = false;
    // Why the session ended other than without an error; empty where it was closed so.
    this.end = this.transport.closed.then(
      (info) => this.over(info.closeCode ? `it was closed with code ${info.closeCode}: ${info.reason}` : ""),
      (error) => this.over(`it broke off: ${error.message}`),
    );
  }

  over(failure) {
    this.isOver = true;
    return failure;
  }

  // Opens the session, and ends with it. Throws where the test case fails.
  async run(testcase, files) {
    await this.transport.ready;
    if (testcase === "handshake") {
      report({ kind: "protocol", name: this.transport.protocol ?? "" });
      return this.close();
    }
    this.answer();
    if (testcase === "transfer") {
      return this.awaitEnd();
    }
    const [ask, limit] = WAYS[testcase.split("-")[1]];
    try {
      await atOnce(files, limit ?? files.length, (name) => this.fetch(ask, name));
    } catch (error) {
      this.transport.close({ closeCode: SESSION_FAILED, reason: "not all files came" });
      await after(FAREWELL);
      throw error;
    }
    return this.close();
  }

  // Closes the session without an error, and leaves that time to be sent.
  async close() {
    this.transport.close({ closeCode: 0, reason: "" });
    await after(FAREWELL);
  }

  // Waits for the server to close the session. Throws where it ends in another way.
  async awaitEnd() {
    const failure = await this.end;
    if (failure) {
      throw new Error(failure);
    }
  }

  async fetch(ask, name) {
    try {
      await save(`${this.name}/${name}`, await ask.call(this, name));
    } catch (error) {
      throw new Error(`${name}: ${error.message}`);
    }
  }

  async askBidirectional(name) {
    const stream = await this.transport.createBidirectionalStream();
    await sendRequest(stream.writable, name);
    return pieces(stream.readable.getReader());
  }

  async askUnidirectional(name) {
    const answer = this.expect(name);
    await sendRequest(await this.transport.createUnidirectionalStream(), name);
    return this.unlessOver(answer);
  }

  async askDatagram(name) {
    const answer = this.expect(name);
    for (let attempt = 0; attempt < DATAGRAM_ATTEMPTS; attempt++) {
      await this.sendDatagram(encode(`GET ${name}`));
      const content = await this.unlessOver(Promise.race([answer, after(DATAGRAM_PATIENCE)]));
      if (content) {
        return content;
      }
    }
    throw new Error(`it did not come, and was asked for ${DATAGRAM_ATTEMPTS} times`);
  }

  // Says that a file is asked for. It comes with the promise.
  expect(name) {
    const { promise, resolve } = Promise.withResolvers();
    this.expected.set(name, resolve);
    return promise;
  }

  // Hands a file to who asked for it. Says no if nobody did, or if it came before.
  deliver(name, content) {
    const take = this.expected.get(name);
    this.expected.delete(name);
    take?.(content);
    return take !== undefined;
  }

  unlessOver(answer) {
    const over = this.end.then((failure) => {
      throw new Error(`the session was over before it came: ${failure || "it was closed"}`);
    });
    return Promise.race([answer, over]);
  }

  // Answers what the server sends, for as long as there is a session.
  answer() {
    this.forEach(this.transport.incomingUnidirectionalStreams, (stream) => this.takeStream(stream));
    this.forEach(this.transport.incomingBidirectionalStreams, (stream) => this.answerStream(stream));
    this.forEach(this.transport.datagrams.readable, (datagram) => this.takeDatagram(datagram));
  }

  async forEach(source, act) {
    try {
      for await (const item of source) {
        act(item).catch((error) => this.complain(error));
      }
    } catch (error) {
      this.complain(error);
    }
  }

  // Says what went wrong, unless the end of the session is the reason.
  async complain(error) {
    await after(0);
    if (!this.isOver) {
      report({ kind: "complaint", text: `${this.name}: ${error.message}` });
    }
  }

  async takeStream(stream) {
    const { method, name, content } = await readLine(stream);
    if (method === "GET") {
      await this.pushFile(name);
    } else if (method !== "PUSH") {
      throw new Error(`not a request: ${method} ${name}`);
    } else if (!this.deliver(name, content)) {
      throw new Error(`nobody waits for ${name}`);
    }
  }

  // Answers a request with a stream of its own.
  async pushFile(name) {
    const file = await this.open(name);
    const stream = await this.transport.createUnidirectionalStream();
    const writer = stream.getWriter();
    await writer.write(encode(`PUSH ${name}\n`));
    writer.releaseLock();
    await file.body.pipeTo(stream);
  }

  async answerStream({ readable, writable }) {
    try {
      const { method, name } = await readLine(readable);
      if (method !== "GET") {
        throw new Error(`not a request: ${method} ${name}`);
      }
      await (await this.open(name)).body.pipeTo(writable);
    } catch (error) {
      // The server sees that no file comes.
      writable.abort(error).catch(() => {});
      throw error;
    }
  }

  async takeDatagram(datagram) {
    const { method, name, rest } = cutLine(datagram);
    if (method === "GET") {
      const file = await (await this.open(name)).bytes();
      await this.sendDatagram(joined(encode(`PUSH ${name}\n`), file));
    } else if (method === "PUSH") {
      // What was asked for twice may come twice.
      this.deliver(name, [rest]);
    } else {
      throw new Error(`a datagram of ${datagram.length} bytes is neither a request nor a file`);
    }
  }

  async sendDatagram(datagram) {
    const { datagrams } = this.transport;
    if (datagram.length > datagrams.maxDatagramSize) {
      throw new Error(`${datagram.length} bytes are more than a datagram has, ${datagrams.maxDatagramSize}`);
    }
    this.datagramWriter ??= (datagrams.createWritable?.() ?? datagrams.writable).getWriter();
    await this.datagramWriter.write(datagram);
  }

  // Opens a file that the server asks for.
  async open(name) {
    const response = await fetch(`/www/${encodeURIComponent(this.name)}/${encodeURIComponent(name)}`);
    if (!response.ok) {
      throw new Error(`${name}: there is no such file`);
    }
    return response;
  }
}

// The middle words of a test case: how files are asked for, and how many at once (all where it is not said).
const WAYS = {
  unidirectional: [Session.prototype.askUnidirectional],
  bidirectional: [Session.prototype.askBidirectional],
  datagram: [Session.prototype.askDatagram, DATAGRAMS_AT_ONCE],
};

async function sendRequest(writable, name) {
  const writer = writable.getWriter();
  await writer.write(encode(`GET ${name}`));
  await writer.close();
}

// Has a file written as it comes. One that does not come whole does not stay.
async function save(path, content) {
  report({ kind: "begin", path });
  try {
    for await (const piece of content) {
      report({ kind: "piece", path, content: piece.toBase64() });
    }
  } catch (error) {
    report({ kind: "discard", path });
    throw error;
  }
}

// The first line of a stream, up to its end or that of the stream, and the content behind it.
async function readLine(stream) {
  const reader = stream.getReader();
  let head = new Uint8Array();
  for (;;) {
    const { value, done } = await reader.read();
    head = done ? head : joined(head, value);
    if (done || head.includes(NEWLINE)) {
      const { method, name, rest } = cutLine(head);
      return { method, name, content: pieces(reader, rest) };
    }
    if (head.length > LONGEST_LINE) {
      throw new Error("the first line of a stream is too long");
    }
  }
}

// What a stream has, behind what was read of it.
async function* pieces(reader, head = new Uint8Array()) {
  if (head.length) {
    yield head;
  }
  for (let item; !(item = await reader.read()).done; ) {
    yield item.value;
  }
}

// The method and the name of a first line, and what follows it.
function cutLine(bytes) {
  const end = bytes.indexOf(NEWLINE);
  const line = decode(end < 0 ? bytes : bytes.subarray(0, end)).replace(/\r$/, "");
  const [, method, name] = /^(\S*) ?(.*)$/.exec(line) ?? [null, line, ""];
  return { method, name, rest: end < 0 ? new Uint8Array() : bytes.subarray(end + 1) };
}

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

// Does something with each of the items, in their order, with so many at once. Throws the first failure, after the last.
async function atOnce(items, limit, act) {
  const queue = items.values();
  const failures = [];
  const work = async () => {
    for (const item of queue) {
      await act(item).catch((error) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: limit }, work));
  if (failures.length) {
    const others = failures.length > 1 ? ` (and ${failures.length - 1} more)` : "";
    throw new Error(failures[0].message + others);
  }
}

async function runSession({ url, name, files }, plan) {
  try {
    await new Session(url, name, plan.protocols).run(plan.testcase, files);
    return "";
  } catch (error) {
    return `${name}: ${error.message}`;
  }
}

const plan = await (await fetch("/plan.json")).json();
const failures = await Promise.all(plan.sessions.map((session) => runSession(session, plan)));
report({ kind: "over", failure: failures.find((failure) => failure) ?? "" });
