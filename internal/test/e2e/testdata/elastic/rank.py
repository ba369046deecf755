"""A rank of an elastic job that speaks with its agent and does nothing else: python3 rank.py END [CODE]

It prints a line for each epoch that it is in, and goes on into the next one until END, in seconds since 1970."""
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request

DOOR = "http://" + os.environ["GORUN_AGENT"] + "/v1/"


def ask(method, path, body=None):
    request = urllib.request.Request(DOOR + path, data=body, method=method, headers={"Authorization": "Bearer " + os.environ["GORUN_TOKEN"]})
    return urllib.request.urlopen(request).read()


def main():
    end = float(sys.argv[1])
    epoch = 0
    while True:
        try:
            info = json.loads(ask("POST", "park", json.dumps({"left": epoch}).encode()))
        except urllib.error.HTTPError as error:
            sys.exit("there are no more epochs: %d" % error.code)
        epoch = info["epoch"]
        try:
            values = json.loads(ask("POST", "fence/all", b"%d" % info["rank"]))["values"]
        except urllib.error.HTTPError:
            continue  # the epoch is over already
        if len(values) != info["size"]:
            sys.exit("the fence has %d values" % len(values))
        ask("POST", "joined")
        print("epoch", epoch, "rank", info["rank"], "of", info["size"], "local", info["local_rank"], "of", info["local_size"],
              "addrs", ",".join(info["addrs"]), "pid", os.getpid(), flush=True)
        over = threading.Event()
        why = []

        def wait(path, over=over, why=why):
            try:
                why.append(ask("GET", path).decode())
            except OSError as error:
                why.append(str(error))
            over.set()

        for path in ("abort", "interrupt?epoch=%d" % epoch):
            threading.Thread(target=wait, args=(path,), daemon=True).start()
        if not over.wait(max(0, end - time.time())):
            print("done", flush=True)
            sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)


main()
