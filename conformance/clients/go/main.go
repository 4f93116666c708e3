// The Go clients: an informer of client-go, and an operator on controller-runtime. $KUBECONFIG names the cluster.
//
//	client inform NAMESPACE    runs to its end; the last line is `ok`
//	client operate NAMESPACE   acts on Greetings until it is killed
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: %s inform|operate NAMESPACE", os.Args[0]))
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	fail(err)
	parts := map[string]func(context.Context, *rest.Config, string) error{"inform": inform, "operate": operate}
	part, known := parts[os.Args[1]]
	if !known {
		fail(fmt.Errorf("%s: inform or operate", os.Args[1]))
	}
	fail(part(context.Background(), config, os.Args[2]))
	fmt.Println("ok")
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
