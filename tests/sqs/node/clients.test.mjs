// @aws-sdk/client-sqs and sqs-consumer, unchanged but for their endpoint. The SDK checks the digests of bodies itself.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import * as aws from "@aws-sdk/client-sqs";
import { Consumer } from "sqs-consumer";

const BINARY = process.env.RECADO_BIN ?? new URL("../../../target/debug/recado", import.meta.url).pathname;

let server, data, sqs;

before(async () => {
  data = await mkdtemp(join(tmpdir(), "recado-node-"));
  const options = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--sqs-60s-rules", "off"];
  server = spawn(BINARY, options, { stdio: ["ignore", "pipe", "inherit"] });
  const line = await new Promise((said, gone) => {
    createInterface(server.stdout).once("line", said);
    server.once("exit", (code) => gone(new Error(`the server ended with ${code} before it listened`)));
  });
  const endpoint = line.split(" ").at(-1);
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  sqs = new aws.SQSClient({ endpoint, region: "us-east-1", credentials, maxAttempts: 1 });
});

after(async () => {
  sqs?.destroy();
  server?.kill("SIGKILL");
  if (data) await rm(data, { recursive: true, force: true });
});

async function queue(QueueName, Attributes) {
  return (await sqs.send(new aws.CreateQueueCommand({ QueueName, Attributes }))).QueueUrl;
}

test("the life of a message", async () => {
  const QueueUrl = await queue("node");
  const MessageBody = "café & <tea>\r\n\u{1f600}";
  const MessageAttributes = {
    color: { DataType: "String", StringValue: "blå" },
    raw: { DataType: "Binary", BinaryValue: Uint8Array.from([0, 255, 16]) },
  };
  const sent = await sqs.send(new aws.SendMessageCommand({ QueueUrl, MessageBody, MessageAttributes }));
  const all = { QueueUrl, MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] };
  const { Messages } = await sqs.send(new aws.ReceiveMessageCommand({ ...all, WaitTimeSeconds: 20 }));
  const [message] = Messages;
  assert.equal(message.MessageId, sent.MessageId);
  assert.equal(message.Body, MessageBody);
  assert.equal(message.Attributes.ApproximateReceiveCount, "1");
  assert.equal(message.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
  assert.deepEqual([...message.MessageAttributes.raw.BinaryValue], [0, 255, 16]);
  const { ReceiptHandle } = message;
  await sqs.send(new aws.ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 60 }));
  await sqs.send(new aws.DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
  const empty = await sqs.send(new aws.ReceiveMessageCommand(all));
  assert.equal(empty.Messages, undefined);
});

test("batches, and FIFO order", async () => {
  const QueueUrl = await queue("node.fifo", { FifoQueue: "true", ContentBasedDeduplication: "true" });
  const Entries = Array.from({ length: 10 }, (_, n) => ({ Id: `e${n}`, MessageBody: `m${n}`, MessageGroupId: "g" }));
  const sent = await sqs.send(new aws.SendMessageBatchCommand({ QueueUrl, Entries }));
  assert.equal(sent.Successful.length, 10);
  const { Messages } = await sqs.send(new aws.ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
  assert.deepEqual(Messages.map((message) => message.Body), Entries.map((entry) => entry.MessageBody));
  const handles = Messages.map(({ ReceiptHandle }, n) => ({ Id: `${n}`, ReceiptHandle }));
  const deleted = await sqs.send(new aws.DeleteMessageBatchCommand({ QueueUrl, Entries: handles }));
  assert.equal(deleted.Successful.length, 10);
});

test("errors are of their classes", async () => {
  const QueueUrl = await queue("node-errors");
  await assert.rejects(sqs.send(new aws.GetQueueUrlCommand({ QueueName: "gone" })), (error) => {
    assert(error instanceof aws.QueueDoesNotExist, `${error}`);
    assert.equal(error.message, "The specified queue does not exist.");
    return true;
  });
  const garbage = new aws.DeleteMessageCommand({ QueueUrl, ReceiptHandle: "garbage" });
  await assert.rejects(sqs.send(garbage), aws.ReceiptHandleIsInvalid);
  const none = new aws.DeleteMessageBatchCommand({ QueueUrl, Entries: [] });
  await assert.rejects(sqs.send(none), aws.EmptyBatchRequest);
});

test("sqs-consumer handles what comes, and again what failed", async () => {
  const queueUrl = await queue("node-consumer");
  const seen = [];
  let failed = false;
  const consumer = Consumer.create({
    queueUrl,
    sqs,
    waitTimeSeconds: 1,
    terminateVisibilityTimeout: true,
    handleMessage: async (message) => {
      if (message.Body === "b" && !failed) {
        failed = true;
        throw new Error("the first time");
      }
      seen.push(message.Body);
      return message;
    },
  });
  const errors = [];
  consumer.on("error", (error) => errors.push(error));
  consumer.on("processing_error", () => {});
  const empty = new Promise((done) => consumer.on("empty", () => seen.length === 3 && done()));
  consumer.start();
  for (const MessageBody of ["a", "b", "c"]) {
    await sqs.send(new aws.SendMessageCommand({ QueueUrl: queueUrl, MessageBody }));
  }
  await empty;
  const stopped = new Promise((done) => consumer.on("stopped", done));
  consumer.stop();
  await stopped;
  assert.deepEqual(errors, []);
  assert.deepEqual(seen.sort(), ["a", "b", "c"]);
  assert(failed);
});
