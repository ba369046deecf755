// Python stands in for a training program inside a container's image. It prints what it
// knows of its rank; its last argument may ask for more.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	get := os.Getenv
	if len(os.Args) < 2 || os.Args[1] != "train.py" {
		fmt.Fprintf(os.Stderr, "python: %q\n", os.Args)
		os.Exit(2)
	}
	told := make(chan os.Signal, 8)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGUSR1)
	fmt.Printf("rank %s of %s on %s\n", get("RANK"), get("WORLD_SIZE"), get("GORUN_HOSTNAME"))
	switch last := os.Args[len(os.Args)-1]; {
	case last == "--env":
		fmt.Printf("%s: %s/%s %s/%s %s/%s %s lib=%s plain=%s asked=%s master=%t\n", get("GORUN_RANK"),
			get("HOROVOD_RANK"), get("HOROVOD_SIZE"), get("LOCAL_RANK"),
			get("LOCAL_WORLD_SIZE"), get("OMPI_COMM_WORLD_RANK"), get("GORUN_CROSS_SIZE"), get("PYTHONUNBUFFERED"),
			get("LD_LIBRARY_PATH"), get("E2E_PLAIN"), get("E2E_ASKED"), get("MASTER_ADDR") != "")
	case last == "--result":
		fd, err := strconv.Atoi(get("GORUN_RESULT_FD"))
		if err == nil {
			_, err = fmt.Fprintf(os.NewFile(uintptr(fd), "result"), "result of rank %s", get("RANK"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case last == "--fail" && get("RANK") == "1":
		os.Exit(3)
	case last == "--die" && get("RANK") == "1":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case last == "--fail", last == "--die", last == "--wait":
		sig := <-told
		for again := true; again; {
			fmt.Printf("rank %s told: %v\n", get("RANK"), sig)
			select {
			case sig = <-told: // a second time
			case <-time.After(time.Second / 2):
				again = false
			}
		}
	}
}
