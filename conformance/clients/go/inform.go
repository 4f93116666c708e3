package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyconfig "k8s.io/client-go/applyconfigurations/core/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

const soon = 60 * time.Second

// Protobuf, as Kubernetes' own components speak it.
func inform(ctx context.Context, config *rest.Config, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := corev1.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := client.ConfigMaps(namespace)
	if err := follows(ctx, client.RESTClient(), maps, namespace); err != nil {
		return fmt.Errorf("informer: %w", err)
	}
	if err := conflicts(ctx, maps); err != nil {
		return fmt.Errorf("conflicts: %w", err)
	}
	return nil
}

func labelled(name, n string) *core.ConfigMap {
	labels := map[string]string{"seen": "yes"}
	return &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"n": n}}
}

// An informer's handlers and its cache. Its first list comes as a stream of events, as client-go asks for by default.
func follows(ctx context.Context, getter cache.Getter, maps corev1.ConfigMapInterface, namespace string) error {
	if _, err := maps.Create(ctx, labelled("one", "1"), meta.CreateOptions{}); err != nil {
		return err
	}
	listed := cache.NewFilteredListWatchFromClient(getter, "configmaps", namespace, func(options *meta.ListOptions) {
		options.LabelSelector = "seen=yes"
	})
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	informer := cache.NewSharedIndexInformer(listed, &core.ConfigMap{}, 0, indexers)
	seen := make(chan string, 16)
	shown := func(object any) string {
		configMap := object.(*core.ConfigMap)
		return configMap.Name + "=" + configMap.Data["n"]
	}
	registered, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, first bool) { seen <- fmt.Sprintf("add %s first=%t", shown(object), first) },
		UpdateFunc: func(old, object any) { seen <- "update " + shown(old) + " " + shown(object) },
		DeleteFunc: func(object any) { seen <- "delete " + shown(object) },
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
		return fmt.Errorf("it did not synchronise")
	}
	if _, err := maps.Create(ctx, labelled("two", "1"), meta.CreateOptions{}); err != nil {
		return err
	}
	if _, err := maps.Update(ctx, labelled("two", "2"), meta.UpdateOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "one", meta.DeleteOptions{}); err != nil {
		return err
	}
	for _, expected := range []string{"add one=1 first=true", "add two=1 first=false", "update two=1 two=2", "delete one=1"} {
		select {
		case got := <-seen:
			if got != expected {
				return fmt.Errorf("%q, not %q", got, expected)
			}
		case <-ctx.Done():
			return fmt.Errorf("no %q: %w", expected, ctx.Err())
		}
	}
	if keys := informer.GetStore().ListKeys(); !slices.Equal(keys, []string{namespace + "/two"}) {
		return fmt.Errorf("its cache holds %q", keys)
	}
	return nil
}

// An update from an old version and an apply of another's field are refused; read again, and forced, they pass.
func conflicts(ctx context.Context, maps corev1.ConfigMapInterface) error {
	old, err := maps.Get(ctx, "two", meta.GetOptions{})
	if err != nil {
		return err
	}
	newer := old.DeepCopy()
	newer.Data["n"] = "3"
	if _, err := maps.Update(ctx, newer, meta.UpdateOptions{}); err != nil {
		return err
	}
	attempts := 0
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		attempts++
		old.Data["n"] = "4"
		_, err := maps.Update(ctx, old, meta.UpdateOptions{})
		if errors.IsConflict(err) {
			read, again := maps.Get(ctx, "two", meta.GetOptions{})
			if again != nil {
				return again
			}
			old = read
		}
		return err
	})
	if err != nil || attempts != 2 {
		return fmt.Errorf("%d attempts: %w", attempts, err)
	}
	two := applyconfig.ConfigMap("two", old.Namespace).WithData(map[string]string{"n": "5"})
	if _, err := maps.Apply(ctx, two, meta.ApplyOptions{FieldManager: "go"}); !errors.IsConflict(err) {
		return fmt.Errorf("a conflict, not %v", err)
	}
	applied, err := maps.Apply(ctx, two, meta.ApplyOptions{FieldManager: "go", Force: true})
	if err != nil || applied.Data["n"] != "5" {
		return fmt.Errorf("applied %v: %w", applied, err)
	}
	return nil
}
