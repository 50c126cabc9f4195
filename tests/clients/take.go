// take.go - redigo with a pool that asks an idle connection whether it is alive, as its
// documentation shows; see clients_test.py.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

func must(v interface{}, err error) interface{} {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return v
}

func main() {
	pool := &redis.Pool{
		Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", "127.0.0.1:"+os.Args[1])
		},
		TestOnBorrow: func(c redis.Conn, t time.Time) error {
			_, err := c.Do("PING")
			return err
		},
	}
	c := pool.Get()
	for i := 0; i < 500; i++ {
		fmt.Println("id", must(redis.Int64(c.Do("INCR", "orders"))))
	}
	for i := 0; i < 500; i++ {
		must(nil, c.Send("NEXT", "orders"))
	}
	must(nil, c.Flush())
	for i := 0; i < 500; i++ {
		fmt.Println("id", must(redis.String(c.Receive())))
	}
	for _, id := range must(redis.Strings(c.Do("NEXT", "big", 1000))).([]string) {
		fmt.Println("big", id)
	}
	c.Close()
	fmt.Println("restart")
	bufio.NewReader(os.Stdin).ReadString('\n')
	c = pool.Get()
	fmt.Println("id", must(redis.Int64(c.Do("INCR", "orders"))))
}
