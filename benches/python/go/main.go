// Command consume reads partition 0 of a topic with franz-go and prints the time and memory used.
//
//	consume BOOTSTRAP TOPIC COUNT
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type found struct {
	Rows    int     `json:"rows"`
	Bytes   int     `json:"bytes"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
	RSS     float64 `json:"rss_mib"`
}

func main() {
	result, err := consume(os.Args[1], os.Args[2], os.Args[3])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func consume(servers, topic, wanted string) (found, error) {
	var result found
	count, err := strconv.Atoi(wanted)
	if err != nil {
		return result, err
	}
	started, used := time.Now(), cpu()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(servers),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
	)
	if err != nil {
		return result, err
	}
	defer client.Close()
	patience, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for result.Rows < count {
		fetches := client.PollFetches(patience)
		if err := fetches.Err(); err != nil {
			return result, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			result.Rows++
			result.Bytes += len(record.Value)
		})
	}
	result.Seconds, result.CPU = time.Since(started).Seconds(), cpu()-used
	result.RSS, err = peak()
	return result, err
}

// cpu returns the user and system CPU seconds that this process has used.
func cpu() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// peak returns the peak memory of this process in MiB.
func peak() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	return kib / 1024, err
}
