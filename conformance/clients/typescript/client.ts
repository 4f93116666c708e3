// The TypeScript client: apply, informer, custom resources, exec, logs, port-forward, errors.
// Argument: a namespace with a Ready pod `server`. $KUBECONFIG names the cluster. The last line is `ok`.

import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { PassThrough, Writable } from "node:stream";
import * as k8s from "@kubernetes/client-node";

const namespace = process.argv[2]!;
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);

/** Collects what a stream writes. */
class Collected extends Writable {
  text = "";
  override _write(chunk: Buffer, _encoding: string, done: () => void) {
    this.text += chunk.toString();
    done();
    this.emit("more");
  }
}

function status(error: unknown): number {
  assert(error instanceof k8s.ApiException, `${error}`);
  return error.code;
}

async function apply(manager: string, k: string, force: boolean) {
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "applied", namespace }, data: { k } };
  const options = k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.ServerSideApply);
  return core.patchNamespacedConfigMap({ name: "applied", namespace, body, fieldManager: manager, force }, options);
}

async function applies() {
  await apply("one", "1", false);
  const refused = await apply("two", "2", false).then(() => 200, status);
  assert.equal(refused, 409);
  assert.equal((await apply("two", "2", true)).data?.["k"], "2");
  const objects = k8s.KubernetesObjectApi.makeApiClient(config);
  const read = await objects.read({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "applied", namespace } });
  assert.equal(read.metadata?.managedFields?.length, 1, "the second manager took all");
}

async function informs() {
  const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: "seen=yes" });
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const informer = k8s.makeInformer(config, path, list, "seen=yes");
  const seen: string[] = [];
  const gone = new Promise<void>((resolve, reject) => {
    informer.on("add", (map) => seen.push(`add ${map.data?.["n"]}`));
    informer.on("update", (map) => seen.push(`update ${map.data?.["n"]}`));
    informer.on("delete", () => resolve());
    informer.on("error", reject);
  });
  await informer.start();
  const metadata = { name: "informed", labels: { seen: "yes" } };
  await core.createNamespacedConfigMap({ namespace, body: { metadata, data: { n: "1" } } });
  const merge = k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.MergePatch);
  await core.patchNamespacedConfigMap({ name: "informed", namespace, body: { data: { n: "2" } } }, merge);
  await core.deleteNamespacedConfigMap({ name: "informed", namespace });
  await gone;
  await informer.stop();
  assert.deepEqual(seen, ["add 1", "update 2"]);
  assert.equal(informer.get("informed", namespace), undefined);
}

async function keepsCustomResources() {
  const kind = { group: "clients.example.test", version: "v1", plural: "greetings", namespace };
  const body = { apiVersion: "clients.example.test/v1", kind: "Greeting", metadata: { name: "hello" } };
  const refused = await custom.createNamespacedCustomObject({ ...kind, body }).then(() => 201, status);
  assert.equal(refused, 422, "a greeting without text");
  await custom.createNamespacedCustomObject({ ...kind, body: { ...body, spec: { text: "hello" } } });
  const patch = [{ op: "replace", path: "/spec/text", value: "bye" }];
  const patched = await custom.patchNamespacedCustomObject({ ...kind, name: "hello", body: patch });
  assert.equal(patched.spec.text, "bye");
  await custom.deleteNamespacedCustomObject({ ...kind, name: "hello" });
  assert.equal(await custom.getNamespacedCustomObject({ ...kind, name: "hello" }).then(() => 200, status), 404);
}

async function executes() {
  const exec = new k8s.Exec(config);
  const run = async (command: string[], input: string | null) => {
    const out = new Collected();
    const stdin = input === null ? null : new PassThrough();
    const ended = new Promise<k8s.V1Status>((resolve, reject) => {
      exec.exec(namespace, "server", "server", command, out, process.stderr, stdin, false, resolve).catch(reject);
    });
    if (stdin) {
      stdin.write(input);
      while (!out.text.endsWith(input!)) await once(out, "more");
      return { text: out.text, status: undefined };
    }
    const status = await ended;
    return { text: out.text, status };
  };
  const echoed = await run(["/testbed", "echo", "from", "typescript"], null);
  assert.equal(echoed.status?.status, "Success");
  assert.equal(echoed.text, "from typescript\n");
  const failed = await run(["/testbed", "exit", "7"], null);
  assert.equal(failed.status?.details?.causes?.[0]?.message, "7");
  assert.equal((await run(["/testbed", "cat"], "typed\n")).text, "typed\n");
}

async function logs() {
  const out = new Collected();
  const controller = await new k8s.Log(config).log(namespace, "server", "server", out, { follow: true });
  while (!out.text.includes("\n")) await once(out, "more");
  controller.abort();
  assert.equal(out.text, "serving on port 8080\n");
}

async function forwards() {
  const forward = new k8s.PortForward(config);
  const server = net.createServer((socket) => {
    forward.portForward(namespace, "server", [8080], socket, null, socket).catch((error) => socket.destroy(error));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as net.AddressInfo;
  const answer = new Collected();
  const socket = net.connect(port, "127.0.0.1");
  socket.write("GET /hostname HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n");
  socket.pipe(answer);
  while (!answer.text.includes("\r\n\r\nserver")) await once(answer, "more");
  socket.destroy();
  server.close();
}

for (const part of [applies, informs, keepsCustomResources, executes, logs, forwards]) {
  await part();
  console.log(part.name);
}
console.log("ok");
process.exit(0);
