"""wire_test.py - the commands of the protocol against the real binary."""

import os
import random
import socket
import threading
import time

import harness
from harness import Client, ID_MAX, wait_until

CHUNK_MIN = 64  # the smallest reservation, common/alloc.h


class Grants(harness.Case):
    def setUp(self):
        self.server = self.hilod()
        self.c = self.client(self.server)

    def test_ids_begin_at_one_and_rise_by_one(self):
        self.assertEqual([self.c.call("INCR", "orders") for _ in range(300)],
                         list(range(1, 301)))

    def test_incrby_answers_the_last_id_of_its_block(self):
        self.assertEqual(self.c.call("INCRBY", "a", 10), 10)
        self.assertEqual(self.c.call("INCRBY", "a", 1), 11)
        self.assertEqual(self.c.call("INCR", "a"), 12)

    def test_next_answers_strings_and_always_an_array_with_a_count(self):
        self.assertEqual(self.c.call("NEXT", "a"), b"1")
        self.assertEqual(self.c.call("NEXT", "a", 1), [b"2"])
        self.assertEqual(self.c.call("NEXT", "a", 1000),
                         [b"%d" % i for i in range(3, 1003)])

    def test_block_answers_first_last_step(self):
        self.assertEqual(self.c.call("BLOCK", "a", 1), [b"1", b"1", b"1"])
        self.assertEqual(self.c.call("BLOCK", "a", 1000), [b"2", b"1001", b"1"])
        self.assertEqual(self.c.call("BLOCK", "a", 1000000), [b"1002", b"1001001", b"1"])

    def test_names_differ_by_case_and_do_not_share(self):
        self.assertEqual(self.c.call("INCR", "orders"), 1)
        self.assertEqual(self.c.call("INCR", "Orders"), 1)
        self.assertEqual(self.c.call("incr", "orders"), 2)

    def test_get_is_the_last_id_or_nil(self):
        self.assertIsNone(self.c.call("GET", "a"))
        self.c.call("BLOCK", "a", 7)
        self.assertEqual(self.c.call("GET", "a"), b"7")
        self.c.call("SEQ", "CREATE", "b", "START", 100)
        self.assertIsNone(self.c.call("GET", "b"))
        self.c.call("INCR", "b")
        self.assertEqual(self.c.call("GET", "b"), b"100")

    def test_ids_of_each_durability_are_exact_and_nothing_stays_in_hand(self):
        self.c.call("SEQ", "CREATE", "a", "DURABILITY", "each")
        self.assertEqual([self.c.call("INCR", "a") for _ in range(20)], list(range(1, 21)))
        self.assertEqual(self.c.call("BLOCK", "a", 5), [b"21", b"25", b"1"])
        self.assertEqual(self.c.seq("a")["reserved"], "0")

    def test_floor_is_below_all_ids(self):
        self.assertEqual(self.c.call("BLOCK", "a", 10, "FLOOR", 500), [b"501", b"510", b"1"])
        self.assertEqual(self.c.call("BLOCK", "a", 10, "FLOOR", 3), [b"511", b"520", b"1"])

    def test_floor_too_far_is_a_regress_and_moves_nothing(self):
        self.c.call("INCR", "a")
        e = self.c.fails("BLOCK", "a", 1, "FLOOR", 5 * 10**12)
        self.assertEqual(e.word, "REGRESS")
        self.assertIn("5000000000000", str(e))
        self.assertIn("continue at 2 ", str(e))
        self.assertIn("SEQ ADVANCE a", str(e))
        self.assertEqual(self.c.call("INCR", "a"), 2)
        self.assertEqual(self.c.info()["floors_refused"], "1")
        self.assertEqual(self.c.call("SEQ", "ADVANCE", "a", 5 * 10**12), b"5000000000001")
        self.assertEqual(self.c.call("BLOCK", "a", 1, "FLOOR", 5 * 10**12)[0],
                         b"5000000000001")

    def test_floors_share_one_allowance_a_minute(self):
        self.c.call("BLOCK", "a", 1, "FLOOR", 6 * 10**8)
        self.assertEqual(self.c.fails("BLOCK", "a", 1, "FLOOR", 12 * 10**8).word, "REGRESS")
        self.c.call("BLOCK", "a", 1, "FLOOR", 9 * 10**8)

    def test_adding_at_the_top_of_the_range_is_redis_error_and_moves_nothing(self):
        self.assertEqual(self.c.call("INCRBY", "seq", 5), 5)
        overflow, number = "ERR increment or decrement would overflow", \
            "ERR value is not an integer or out of range"
        for command, n, text in (("INCRBY", 2**63 - 1, overflow), ("INCRBY", 2**63, number),
                                 ("INCRBY", -2**63, overflow), ("DECRBY", -2**63, overflow),
                                 ("DECRBY", 1, overflow)):
            self.assertTrue(str(self.c.fails(command, "seq", n)).startswith(text), n)
        self.assertEqual(self.c.call("GET", "seq"), b"5")
        self.assertEqual(self.c.fails("DECRBY", "fresh", -2**63).word, "ERR")
        self.assertIsNone(self.c.call("GET", "fresh"))
        self.server.stop()
        again = self.hilod(data=self.server.data)
        c = self.client(again)
        self.assertEqual(c.call("GET", "seq"), b"5")
        self.assertEqual(c.call("INCR", "seq"), 6)

    def test_both_ends_of_the_range(self):
        start = ID_MAX - 9
        self.c.call("SEQ", "CREATE", "top", "START", start)
        self.assertEqual(self.c.call("BLOCK", "top", 4),
                         [b"%d" % start, b"%d" % (start + 3), b"1"])
        self.assertEqual(self.c.fails("BLOCK", "top", 7).word, "EXHAUSTED")
        self.assertEqual(self.c.call("BLOCK", "top", 7, "ATLEAST", 2),
                         [b"%d" % (start + 4), b"%d" % ID_MAX, b"1"])
        for command in (("NEXT", "top"), ("BLOCK", "top", 1), ("NEXT", "top", 3)):
            self.assertEqual(self.c.fails(*command).word, "EXHAUSTED")
        self.assertEqual(self.c.call("GET", "top"), b"%d" % ID_MAX)
        self.assertEqual(self.c.fails("SEQ", "CREATE", "zero", "START", 0).word, "BADARG")
        self.c.call("SEQ", "CREATE", "one", "START", 1, "MAX", 1)
        self.assertEqual(self.c.call("INCR", "one"), 1)
        self.assertEqual(self.c.fails("INCR", "one").word, "EXHAUSTED")

    def test_a_request_that_can_not_be_met_moves_nothing(self):
        self.c.call("SEQ", "CREATE", "a", "MAX", 10)
        self.c.call("BLOCK", "a", 3)
        e = self.c.fails("BLOCK", "a", 8)
        self.assertEqual(e.word, "EXHAUSTED")
        self.assertIn("7 ids left", str(e))
        self.assertIn("SEQ ALTER a MAX", str(e))
        self.assertEqual(self.c.call("BLOCK", "a", 7), [b"4", b"10", b"1"])

    def test_integers_javascript_would_round_are_refused_with_the_way_out(self):
        self.c.call("SEQ", "CREATE", "a", "START", 2**53 - 2)
        self.assertEqual(self.c.fails("INCRBY", "a", 3).word, "ERR")
        self.assertEqual(self.c.call("INCRBY", "a", 2), 2**53 - 1)
        e = self.c.fails("INCR", "a")
        self.assertIn("NEXT a", str(e))
        self.assertEqual(self.c.call("NEXT", "a"), b"%d" % 2**53)

    def test_strange_counts_are_refused_everywhere_and_create_nothing(self):
        bad = ["0", "-1", "1e3", "1.0", "10.5", "+5", "05", " 5", "5 ", "", "0x10",
               "9223372036854775808", "18446744073709551616", "1000001"]
        for n in bad:
            for command in ("BLOCK", "INCRBY", "NEXT"):
                self.assertIn(self.c.fails(command, "strange", n).word, ("BADARG", "ERR"))
        self.assertEqual(self.c.call("SEQ", "LIST"), [b"0", []])

    def test_strange_names_are_refused_everywhere_and_create_nothing(self):
        bad = [b"", b"x" * 129, b"a\0b", b"a b", b"a\nb", b"a\tb", b"%2F", b"\xff",
               "é".encode(), b"'; drop table x;--"]
        for name in bad:
            for command in (("INCR", name), ("BLOCK", name, 1), ("NEXT", name),
                            ("SEQ", "CREATE", name), ("GET", name), ("SEQ", "INFO", name)):
                self.assertEqual(self.c.fails(*command).word, "BADARG", command)
        self.assertEqual(self.c.call("SEQ", "LIST"), [b"0", []])
        self.assertEqual(self.c.call("INCR", b"x" * 128), 1)
        self.assertEqual(self.c.call("INCR", "a.b_c:d/e-F9"), 1)

    def test_atleast_caps_a_count_over_the_limit(self):
        self.assertEqual(self.c.fails("BLOCK", "a", 1000001).word, "BADARG")
        self.assertEqual(self.c.call("BLOCK", "a", 10**18, "ATLEAST", 5),
                         [b"1", b"1000000", b"1"])
        self.assertEqual(self.c.fails("BLOCK", "a", 10, "ATLEAST", 11).word, "BADARG")
        self.assertEqual(self.c.fails("BLOCK", "a", 10, "ATLEAST").word, "BADARG")
        self.assertEqual(self.c.fails("BLOCK", "a", 10, "BOGUS", 1).word, "BADARG")
        self.assertEqual(
            self.c.fails("BLOCK", "a", 10, "FLOOR", 1, "FLOOR", 2).word, "BADARG")


class Repeats(harness.Case):
    """Requests that are the same byte by byte are granted together where they come together."""

    COMMANDS = [("INCR", "a"), ("incr", "a"), ("NEXT", "a"), ("INCR", "small"), ("NEXT", "small"),
                ("NEXT", "each"), ("INCR", "each"), ("GET", "a"), ("NEXT", "a", 25), ("PING",)]

    def start(self):
        c = self.client(self.hilod("--lane", "2/3", "--stripe", "10", "--int-reply-max", "3000"))
        self.assertEqual(c.call("SEQ", "CREATE", "a"), "OK")
        self.assertEqual(c.call("SEQ", "CREATE", "small", "START", 5, "MAX", 700), "OK")
        self.assertEqual(c.call("SEQ", "CREATE", "each", "DURABILITY", "each"), "OK")
        return c

    def test_answers_are_those_of_one_at_a_time(self):
        seed = int(os.environ.get("HILO_SEED", random.randrange(1 << 32)))
        rng = random.Random(seed)
        stream = [command for _ in range(120)
                  for command in [rng.choice(self.COMMANDS)] * rng.choice((1, 2, 7, 40))]
        alone, together = self.start(), self.start()
        before = int(together.info()["total_commands_processed"])
        data = b"".join(Client.encode(*command) for command in stream)
        while data:
            n = rng.choice((len(data), 1000, 30, 1))
            together.send(data[:n])
            data = data[n:]
        for i, command in enumerate(stream):
            alone.start(*command)
            one, other = alone.reply(), together.reply()
            self.assertEqual(str(one), str(other), "HILO_SEED=%d, command %d, %s"
                             % (seed, i, command))
        self.assertEqual(int(together.info()["total_commands_processed"]) - before, len(stream) + 1)
        for name in ("a", "small", "each"):
            for field in ("last", "used_percent", "granted"):
                self.assertEqual(alone.seq(name).get(field), together.seq(name).get(field))

    def test_more_than_one_turn_can_send(self):
        c = self.client(self.hilod())
        n = 30000
        reader = threading.Thread(target=lambda: c.send(b"NEXT a\r\n" * n))
        reader.start()
        self.assertEqual([int(c.reply()) for _ in range(n)], list(range(1, n + 1)))
        reader.join()
        self.assertEqual(c.info()["grants"], str(n))


class Sequences(harness.Case):
    def setUp(self):
        self.server = self.hilod()
        self.c = self.client(self.server)

    def test_create_is_repeatable_but_not_with_other_settings(self):
        self.assertEqual(self.c.call("SEQ", "CREATE", "a", "START", 5, "MAX", 50), "OK")
        self.assertEqual(self.c.call("SEQ", "CREATE", "a", "START", 5, "MAX", 50), "OK")
        e = self.c.fails("SEQ", "CREATE", "a", "START", 6, "MAX", 50)
        self.assertEqual(e.word, "BADARG")
        self.assertIn("START 5 MAX 50 DURABILITY ahead", str(e))
        self.assertEqual(self.c.call("INCR", "a"), 5)

    def test_alter_max_drops_what_is_in_hand_above_it(self):
        for _ in range(10):
            self.c.call("INCR", "a")
        self.assertEqual(self.c.fails("SEQ", "ALTER", "a", "MAX", 9).word, "BADARG")
        self.assertEqual(self.c.call("SEQ", "ALTER", "a", "MAX", 12), "OK")
        self.assertEqual([self.c.call("INCR", "a") for _ in range(2)], [11, 12])
        self.assertEqual(self.c.fails("INCR", "a").word, "EXHAUSTED")
        self.c.call("SEQ", "ALTER", "a", "MAX", 10**6)
        self.assertGreater(self.c.call("INCR", "a"), CHUNK_MIN, "what was in hand is dropped")

    def test_alter_to_each_drops_the_tail_first(self):
        self.c.call("INCR", "a")
        self.assertEqual(self.c.seq("a")["reserved"], str(CHUNK_MIN - 1))
        self.c.call("SEQ", "ALTER", "a", "DURABILITY", "each")
        self.assertEqual(self.c.seq("a")["reserved"], "0")
        first = self.c.call("INCR", "a")
        self.assertGreater(first, CHUNK_MIN)
        self.assertEqual(self.c.call("INCR", "a"), first + 1)

    def test_advance_moves_forward_only(self):
        self.c.call("INCR", "a")
        self.assertEqual(self.c.call("SEQ", "ADVANCE", "a", 1000), b"1001")
        self.assertEqual(self.c.call("INCR", "a"), 1001)
        self.assertEqual(self.c.call("SEQ", "ADVANCE", "a", 5), b"1002")
        self.assertEqual(self.c.call("INCR", "a"), 1002)
        self.assertEqual(self.c.fails("SEQ", "ADVANCE", "a", ID_MAX).word, "BADARG")
        self.assertEqual(self.c.fails("SEQ", "ADVANCE", "nothere", 1).word, "NOSEQ")

    def test_advance_answers_an_id_there_is_or_moves_nothing(self):
        self.c.call("SEQ", "CREATE", "a", "MAX", 64)
        self.c.call("INCR", "a")
        self.c.call("SEQ", "ALTER", "a", "MAX", 50)
        self.c.call("SEQ", "ALTER", "a", "MAX", 60)  # 51..60 have been dropped
        self.assertIn("no id left above 55", str(self.c.fails("SEQ", "ADVANCE", "a", 55)))
        self.assertEqual(self.c.call("INCR", "a"), 2)
        self.c.call("INCRBY", "a", 48)
        for above in (0, 50, 60):
            self.assertEqual(self.c.fails("SEQ", "ADVANCE", "a", above).word, "BADARG")

    def test_a_retired_sequence_reserves_nothing(self):
        for _ in range(60):  # demand for more than one chunk
            self.c.call("INCR", "a")
        wait_until(lambda: int(self.c.seq("a")["reserved"]) >= CHUNK_MIN, "a chunk ahead")
        mark = 60 + int(self.c.seq("a")["reserved"])
        self.c.call("SEQ", "RETIRE", "a")
        self.c.fails("INCR", "a")
        self.c.call("SEQ", "CREATE", "b")  # a commit, which a fetch would have shared
        self.c.call("SEQ", "CREATE", "a")
        self.assertEqual(self.c.call("INCR", "a"), mark + 1)

    def test_retired_sequences_go_on_above_their_last_id(self):
        self.assertEqual(self.c.call("INCRBY", "a", 100), 100)
        self.assertEqual(self.c.call("SEQ", "RETIRE", "a"), "OK")
        self.assertEqual(self.c.call("SEQ", "RETIRE", "a"), "OK")
        for command in (("INCR", "a"), ("BLOCK", "a", 2), ("SEQ", "ADVANCE", "a", 500),
                        ("SEQ", "ALTER", "a", "MAX", 500)):
            e = self.c.fails(*command)
            self.assertEqual(e.word, "NOSEQ")
            self.assertIn("SEQ CREATE a", str(e))
        self.server.stop()
        c = self.client(self.hilod(data=self.server.data))
        self.assertEqual(c.seq("a")["state"], "retired")
        self.assertEqual(c.call("SEQ", "CREATE", "a", "MAX", 10**6), "OK")
        self.assertGreater(c.call("INCR", "a"), 100)
        self.assertEqual(c.seq("a")["max"], "1000000")

    def test_list_walks_in_pages_and_matches(self):
        for i in range(250):
            self.c.call("SEQ", "CREATE", "s%d" % i)
        seen, cursor = [], b"0"
        while True:
            cursor, page = self.c.call("SEQ", "LIST", "CURSOR", cursor)
            self.assertLessEqual(len(page), 100)
            seen += [p[1].decode() for p in page]
            if cursor == b"0":
                break
        self.assertEqual(seen, ["s%d" % i for i in range(250)])
        _, page = self.c.call("SEQ", "LIST", "MATCH", "s?9")
        self.assertEqual(sorted(p[1] for p in page),
                         sorted(b"s%d9" % i for i in range(1, 10)))
        self.assertEqual(self.c.fails("SEQ", "LIST", "CURSOR", "x").word, "BADARG")

    def test_info_of_a_sequence(self):
        self.c.call("SEQ", "CREATE", "a", "START", 11, "MAX", 110, "DURABILITY", "each")
        self.c.call("BLOCK", "a", 85)
        info = self.c.seq("a")
        rate = info.pop("rate")
        self.assertTrue(rate.isdigit())
        self.assertEqual(info, {
            "name": "a", "state": "live", "start": "11", "max": "110", "durability": "each",
            "last": "95", "granted": "85", "reserved": "0", "remaining": "15",
            "used_percent": "85"})
        self.assertEqual(self.c.info()["sequences_near_end"], "1")
        self.assertIn("sequence a: 85 % of its ids are used", self.server.errors())
        self.assertEqual(self.c.fails("SEQ", "INFO", "nothere").word, "NOSEQ")

    def test_only_what_was_granted_is_used(self):
        """A hundred ids are reserved in one go; the warning comes with the 80th of them."""
        self.c.call("SEQ", "CREATE", "a", "MAX", 100)
        for granted in (1, 79, 80):
            self.c.call("INCRBY", "a", granted - int(self.c.call("GET", "a") or 0))
            info = self.c.seq("a")
            self.assertEqual((info["used_percent"], info["remaining"]),
                             (str(granted), str(100 - granted)))
            self.assertEqual(self.c.info()["sequences_near_end"], "1" if granted == 80 else "0")
        self.assertIn("sequence a: 80 % of its ids are used, 20 are left", self.server.errors())

    def test_settings_out_of_range_name_the_field(self):
        for options in (("START", 0), ("START", "x"), ("MAX", 0), ("MAX", 2**63),
                        ("DURABILITY", "never"), ("START",), ("SPEED", 1),
                        ("START", 5, "MAX", 4), ("START", 1, "START", 2)):
            e = self.c.fails("SEQ", "CREATE", "a", *options)
            self.assertEqual(e.word, "BADARG", options)
        self.assertEqual(self.c.fails("SEQ", "ALTER", "a", "START", 5).word, "BADARG")
        self.assertEqual(self.c.call("SEQ", "LIST"), [b"0", []])

    def test_the_number_of_sequences_is_capped(self):
        server = self.hilod("--max-sequences", "2")
        c = self.client(server)
        c.call("INCR", "a")
        c.call("INCR", "b")
        e = c.fails("INCR", "c")
        self.assertEqual(e.word, "BADARG")
        self.assertIn("max_sequences", str(e))
        self.assertEqual(c.call("INCR", "a"), 2)

    def test_unknown_names_say_what_to_do_when_nothing_is_created(self):
        c = self.client(self.hilod("--auto-create", "no"))
        e = c.fails("INCR", "orders")
        self.assertEqual(e.word, "NOSEQ")
        self.assertIn("SEQ CREATE orders", str(e))
        c.call("SEQ", "CREATE", "orders")
        self.assertEqual(c.call("INCR", "orders"), 1)


class Redis(harness.Case):
    """What clients of Redis expect to be answered."""

    def setUp(self):
        self.server = self.hilod()
        self.c = self.client(self.server)

    def test_small_talk(self):
        c = self.c
        self.assertEqual(c.call("PING"), "PONG")
        self.assertEqual(c.call("PING", "x\r\ny"), b"x\r\ny")
        self.assertEqual(c.call("ECHO", "hello"), b"hello")
        self.assertEqual(c.call("SELECT", 0), "OK")
        self.assertEqual(str(c.fails("SELECT", 1)), "ERR DB index is out of range")
        self.assertEqual(c.call("CLIENT", "SETNAME", "me"), "OK")
        self.assertEqual(c.call("CLIENT", "GETNAME"), b"me")
        self.assertEqual(c.call("CLIENT", "SETINFO", "LIB-NAME", "x"), "OK")
        self.assertIn(b"lib-name=x", c.call("CLIENT", "INFO"))
        self.assertEqual(c.call("RESET"), "RESET")
        self.assertIsNone(c.call("CLIENT", "GETNAME"))
        self.assertGreater(c.call("CLIENT", "ID"), 0)
        self.assertEqual(c.call("CONFIG", "GET", "save"), [b"save", b""])
        self.assertEqual(c.call("CONFIG", "GET", "max_b*", "max_s*"),
                         [b"max_block", b"1000000", b"max_sequences", b"1000000"])
        self.assertEqual(c.call("COMMAND", "COUNT"), len(c.call("COMMAND", "LIST")))
        self.assertEqual(c.call("COMMAND", "INFO", "incr", "nope")[0][:2], [b"incr", 2])
        self.assertEqual(c.fails("CLUSTER", "INFO").word, "ERR")
        self.assertEqual(c.fails("READONLY").word, "ERR")

    def test_unknown_commands_and_arities_use_redis_texts(self):
        self.assertEqual(str(self.c.fails("FOO", "a")), "ERR unknown command 'FOO'")
        self.assertTrue(str(self.c.fails("INCR")).startswith(
            "ERR wrong number of arguments for 'INCR' command"))
        self.assertTrue(str(self.c.fails("CLIENT", "FOO")).startswith(
            "ERR unknown subcommand 'FOO'"))

    def test_what_would_repeat_ids_is_refused_with_the_way_out(self):
        self.c.call("INCR", "a")
        for command in (("SET", "a", 0), ("DEL", "a"), ("EXPIRE", "a", 1), ("DECR", "a"),
                        ("DECRBY", "a", 1), ("GETSET", "a", 0), ("FLUSHALL",),
                        ("RENAME", "a", "b"), ("INCRBYFLOAT", "a", "1.5")):
            e = self.c.fails(*command)
            self.assertRegex(str(e), r"SEQ |INCRBY")
        self.assertEqual(self.c.call("INCR", "a"), 2)

    def test_hello_switches_the_protocol(self):
        hello = self.c.call("HELLO")
        self.assertIn(b"proto", hello)
        hello = self.c.call("HELLO", 3, "SETNAME", "me")
        self.assertEqual(hello[b"proto"], 3)
        self.assertEqual(hello[b"mode"], b"standalone")
        self.assertEqual(hello[b"role"], b"master")
        for field in (b"uuid", b"boot", b"lane", b"lanes", b"stripe", b"epoch", b"shared"):
            self.assertIn(field, hello)
        self.assertIsNone(self.c.call("GET", "nothing"))
        self.assertIsInstance(self.c.call("CONFIG", "GET", "*"), dict)
        self.assertEqual(self.c.fails("HELLO", 4).word, "NOPROTO")
        self.assertIsInstance(self.c.call("HELLO", 2), list)

    def test_info_has_what_clients_look_for_and_what_operators_need(self):
        info = self.c.info()
        self.assertEqual(info["loading"], "0")
        self.assertEqual(info["role"], "master")
        self.assertEqual(info["redis_mode"], "standalone")
        self.assertRegex(info["redis_version"], r"^7\.")
        self.assertEqual(info["synchronous"], "2")
        self.assertEqual(info["journal_mode"], "wal")
        self.assertEqual(info["ready"], "1")
        hello = self.c.call("HELLO", 3)
        for field, name in (("store_uuid", b"uuid"), ("boot_id", b"boot")):
            self.assertEqual(info[field], hello[name].decode())
        self.assertEqual(list(self.c.info("hilo"))[0], "version")

    def test_control_bytes_are_never_echoed(self):
        for command in (b"FOO\r\n+OK", b"FOO\0", b"\x1b[31m"):
            self.c.start(command)
            line = self.c.line()
            self.assertTrue(line.startswith(b"-ERR unknown command"), line)
            self.assertTrue(all(32 <= b < 127 for b in line), line)
        self.assertEqual(self.c.fails("INCR", b"a\r\n:999").word, "BADARG")
        self.assertEqual(self.c.call("PING"), "PONG")


class Streams(harness.Case):
    """Frames that come split, piled up, broken, or with nobody reading."""

    def setUp(self):
        self.server = self.hilod()

    def test_one_byte_at_a_time(self):
        c = self.client(self.server)
        for byte in Client.encode("INCRBY", "bb", 10):
            c.send(bytes([byte]))
        self.assertEqual(c.reply(), 10)

    def test_a_cut_at_every_offset(self):
        stream = Client.encode("INCR", "cut") + b"INCR cut\r\n" + Client.encode("NEXT", "cut")
        c = self.client(self.server)
        last = 0
        for at in range(1, len(stream)):
            c.send(stream[:at])
            # What is complete is answered; only then comes the rest.
            time.sleep(0)
            c.send(stream[at:])
            replies = [int(c.reply()) for _ in range(3)]
            self.assertEqual(replies, [last + 1, last + 2, last + 3])
            last += 3

    def test_ten_thousand_in_one_write_with_nobody_reading(self):
        for each in (False, True):
            name = "each" if each else "ahead"
            c = self.client(self.server)
            c.call("SEQ", "CREATE", name, "DURABILITY", name)
            stream = Client.encode("INCR", name) * 10000
            # The server may stop reading before all is sent, so reading begins in between.
            c.sock.setblocking(False)
            sent, got = 0, b""
            while got.count(b"\r\n") < 10000:
                try:
                    sent += c.sock.send(stream[sent:sent + 65536]) if sent < len(stream) else 0
                except BlockingIOError:
                    pass
                try:
                    if sent == len(stream):
                        got += c.sock.recv(65536)
                except BlockingIOError:
                    time.sleep(0.001)
            self.assertEqual(got, b"".join(b":%d\r\n" % i for i in range(1, 10001)))

    def test_a_reader_of_one_byte_a_time(self):
        c = self.client(self.server)
        c.send(Client.encode("INCR", "slow") * 500)
        want = b"".join(b":%d\r\n" % i for i in range(1, 501))
        got = b""
        while len(got) < len(want):
            got += c.sock.recv(1)
        self.assertEqual(got, want)

    def test_inline_commands_blank_lines_and_empty_arrays(self):
        c = self.client(self.server)
        c.send(b"PING\r\nPING\n\r\n\n*0\r\n*-1\r\n  INCR   'il'  \r\nECHO \"a b\"\n")
        self.assertEqual([c.reply() for _ in range(4)], ["PONG", "PONG", 1, b"a b"])

    def test_half_a_command_then_a_pause(self):
        c = self.client(self.server)
        c.send(Client.encode("INCR", "pause")[:9])
        other = self.client(self.server)
        for i in range(100):
            self.assertEqual(other.call("INCR", "other"), i + 1)
        c.send(Client.encode("INCR", "pause")[9:])
        self.assertEqual(c.reply(), 1)

    def test_a_bad_frame_is_answered_once_after_what_came_before(self):
        for bad in (b"*2\r\n$4\r\nINCR\r\n$5\r\nabcd\r\n", b"*2\r\n$4\r\nINCR\r\n:5\r\n",
                    b"*1\r\n$4\r\nPINGX\r\n", b"*65\r\n", b"*1\r\n$4097\r\n",
                    b"x" * 1024, b"INCR 'p\r\n"):
            c = self.client(self.server)
            name = "p%d" % len(bad)
            two = Client.encode("INCR", name) * 2
            c.send(two + bad + two)
            self.assertEqual([c.reply(), c.reply()], [1, 2])
            self.assertTrue(str(c.reply()).startswith("ERR Protocol error"))
            self.assertTrue(c.at_end())
            self.assertEqual(self.client(self.server).call("GET", name), b"2")

    def test_a_refused_command_answers_in_its_place(self):
        c = self.client(self.server)
        c.send(Client.encode("INCR", "p") + Client.encode("INCR", "x" * 4096) +
               Client.encode("INCR", "p"))
        self.assertEqual(c.reply(), 1)
        self.assertEqual(c.reply().word, "BADARG")
        self.assertEqual(c.reply(), 2)

    def test_the_longest_request_comes_in_pieces(self):
        longest = Client.encode(*[b"x" * 4096] * 64)
        stream = (Client.encode("INCR", "long") + longest) * 4 + Client.encode("INCR", "long")
        for size in (1399, 16384, 65537, 300000):
            c = self.client(self.server)
            for i in range(0, len(stream), size):
                c.send(stream[i:i + size])
                self.client(self.server).call("PING")  # so that it is read by pieces
            got = [c.reply() for _ in range(9)]
            self.assertEqual([g.word for g in got[1::2]], ["ERR"] * 4)
            self.assertEqual(got[2::2], [got[0] + i for i in range(1, 5)])

    def test_headers_padded_with_zeros_are_refused(self):
        c = self.client(self.server)
        c.send(b"*64\r\n" + (b"$000000000000000004096\r\n" + b"x" * 4096 + b"\r\n") * 64)
        self.assertIn("invalid bulk length", str(c.reply()))
        self.assertTrue(c.at_end())

    def test_http_is_not_run(self):
        for head in (b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST /x HTTP/1.1\r\n",
                     b"OPTIONS / HTTP/1.0\r\n", b"Host: x\r\n"):
            c = self.client(self.server)
            c.send(head + b"\r\nINCR zz\r\n")
            self.assertTrue(c.at_end())
        self.assertIsNone(self.client(self.server).call("GET", "zz"))
        self.assertRegex(self.server.errors(), r"from 127\.0\.0\.1:\d+: .*not a web server; closed")

    def test_the_hello_of_tls_is_answered_in_words(self):
        c = self.client(self.server)
        c.send(b"\x16\x03\x01\x00\xf1\x01\x00\x00\xed\x03\x03" + bytes(range(256)))
        self.assertIn("Protocol error", str(c.reply()))
        self.assertTrue(c.at_end())

    def test_a_name_of_a_megabyte_is_refused_by_its_length_alone(self):
        c = self.client(self.server)
        c.send(b"*2\r\n$4\r\nINCR\r\n$1048576\r\n")
        self.assertIn("Protocol error", str(c.reply()))
        self.assertTrue(c.at_end())
        self.assertEqual(self.client(self.server).call("SEQ", "LIST"), [b"0", []])

    def test_the_end_of_input_does_not_lose_answers(self):
        c = self.client(self.server)
        c.call("SEQ", "CREATE", "e", "DURABILITY", "each")
        c.send(Client.encode("INCR", "e") * 50 + Client.encode("PING") + b"*1\r\n$4")
        c.sock.shutdown(socket.SHUT_WR)
        self.assertEqual([c.reply() for _ in range(51)], list(range(1, 51)) + ["PONG"])
        self.assertTrue(c.at_end())

    def test_quit_answers_what_came_before_and_nothing_after(self):
        c = self.client(self.server)
        c.send(Client.encode("INCR", "q") + Client.encode("QUIT") + Client.encode("INCR", "q"))
        self.assertEqual([c.reply(), c.reply()], [1, "OK"])
        self.assertTrue(c.at_end())
        self.assertEqual(self.client(self.server).call("GET", "q"), b"1")

    def test_answers_keep_their_order_when_some_wait_and_some_do_not(self):
        c = self.client(self.server)
        c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
        c.call("INCR", "ahead")
        stream, want = [], []
        for i in range(200):
            stream += [Client.encode("INCR", "each"), Client.encode("INCR", "ahead"),
                       Client.encode("INCRBY", "ahead", "x"), Client.encode("PING", i),
                       Client.encode("BLOCK", "each", 2), Client.encode("GET", "each")]
            want += [3 * i + 1, i + 2, "ERR", b"%d" % i,
                     [b"%d" % (3 * i + 2), b"%d" % (3 * i + 3), b"1"], b"%d" % (3 * i + 3)]
        c.send(b"".join(stream))
        got = [c.reply() for _ in want]
        self.assertEqual([g.word if isinstance(g, harness.Error) else g for g in got], want)

    def test_administration_happens_in_its_place(self):
        c = self.client(self.server)
        c.send(b"".join(Client.encode(*a) for a in (
            ("SEQ", "CREATE", "s", "START", 10), ("INCR", "s"),
            ("SEQ", "ADVANCE", "s", 100), ("INCR", "s"), ("SEQ", "ALTER", "s", "MAX", 101),
            ("INCR", "s"), ("SEQ", "RETIRE", "s"), ("INCR", "s"), ("SEQ", "CREATE", "s"),
            ("SEQ", "INFO", "s"), ("INCR", "s"))))
        got = [c.reply() for _ in range(11)]
        self.assertEqual(got[:5], ["OK", 10, b"101", 101, "OK"])
        self.assertEqual(got[5].word, "EXHAUSTED")
        self.assertEqual(got[6], "OK")
        self.assertEqual(got[7].word, "NOSEQ")
        self.assertEqual(got[8], "OK")
        self.assertGreater(got[10], 101)

    def test_clients_that_leave_while_they_wait_harm_nobody(self):
        keeper = self.client(self.server)
        keeper.call("SEQ", "CREATE", "left", "DURABILITY", "each")
        for _ in range(50):
            c = self.server.client()
            c.send(Client.encode("INCR", "left") * 20 +
                   Client.encode("SEQ", "CREATE", "left", "DURABILITY", "each"))
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            c.close()
        ids = [keeper.call("INCR", "left") for _ in range(50)]
        self.assertEqual(ids, sorted(set(ids)))
        wait_until(lambda: keeper.info()["connected_clients"] == "1", "the others to be gone")

    def test_memory_is_bounded_while_answers_are_not_read(self):
        def rss():
            with open("/proc/%d/statm" % self.server.proc.pid) as f:
                return int(f.read().split()[1]) * 4096

        keeper = self.client(self.server)
        keeper.call("INCR", "m")
        before = rss()
        c = self.client(self.server)
        c.sock.setblocking(False)
        data = memoryview(Client.encode("NEXT", "m", 1000) * 500000)
        idle = 0
        while idle < 200 and data:
            try:
                data = data[c.sock.send(data):]
                idle = 0
            except BlockingIOError:
                keeper.call("PING")
                idle += 1
        self.assertTrue(data, "the server read everything although nobody reads answers")
        self.assertLess(rss() - before, 16 << 20)
        self.assertEqual(keeper.call("PING"), "PONG")


class Restarts(harness.Case):
    def test_a_clean_stop_continues_and_a_crash_leaves_a_gap(self):
        a = self.hilod()
        c = self.client(a)
        self.assertEqual([c.call("INCR", "orders") for _ in range(3)], [1, 2, 3])
        a.stop()
        b = self.hilod(data=a.data)
        c = self.client(b)
        self.assertEqual(c.call("GET", "orders"), b"3")
        self.assertEqual(c.call("INCR", "orders"), 4)
        b.kill()
        d = self.hilod(data=a.data)
        c = self.client(d)
        after = c.call("INCR", "orders")
        self.assertGreater(after, 4)
        self.assertLessEqual(after, 4 + 2 * CHUNK_MIN)
        self.assertNotEqual(c.info()["boot_id"], "")

    def test_blocks_begin_where_the_last_one_ended_across_restarts(self):
        for start in (1, 1000000):
            data = self.tmp()
            s = self.hilod(data=data)
            c = self.client(s)
            c.call("SEQ", "CREATE", "s", "START", start)
            got = []
            for n in (1, 10, 10):
                got.append(c.call("BLOCK", "s", n)[:2])
                s.stop()
                s = self.hilod(data=data)
                c = self.client(s)
            self.assertEqual(got, [[b"%d" % (start + a), b"%d" % (start + b)]
                                   for a, b in ((0, 0), (1, 10), (11, 20))])

    def test_restarts_alone_burn_no_ids(self):
        data = self.tmp()
        s = self.hilod(data=data)
        c = self.client(s)
        last = c.call("INCRBY", "s", 5)
        c.call("INCR", "e")
        for i in range(10):
            s.stop() if i % 2 else s.kill()
            s = self.hilod(data=data)
        c = self.client(s)
        self.assertLessEqual(c.call("INCR", "s"), last + 2 * CHUNK_MIN)

    def test_a_crash_loop_burns_what_was_in_hand_and_idle_crashes_nothing(self):
        data = self.tmp()
        server = self.hilod(data=data)
        rounds = 1000 if harness.LONG else 30
        last = 0
        for _ in range(rounds):
            with server.client() as c:
                first, last_now, _ = map(int, c.call("BLOCK", "s", 1000))
            self.assertGreater(first, last)
            # A chunk of what was asked for, and one ahead of need, at most eight times the least.
            self.assertLessEqual(first, last + 1 + 8 * CHUNK_MIN)
            last = last_now
            server.kill()
            server = self.hilod(data=data)
        for _ in range(rounds):
            server.kill()
            server = self.hilod(data=data)
        with server.client() as c:
            self.assertLessEqual(int(c.call("BLOCK", "s", 1)[0]), last + 1 + 8 * CHUNK_MIN)

    def test_clean_restarts_of_a_slow_sequence_burn_nothing(self):
        data = self.tmp()
        for i in range(100 if harness.LONG else 20):
            server = self.hilod(data=data)
            with server.client() as c:
                self.assertEqual(c.call("INCR", "s"), i + 1)
            server.stop()

    def test_stopping_answers_what_waits(self):
        s = self.hilod()
        setup = self.client(s)
        setup.call("SEQ", "CREATE", "e", "DURABILITY", "each")
        clients = [self.client(s) for _ in range(20)]
        for c in clients:
            c.send(Client.encode("INCR", "e") * 100)
        firsts = [c.reply() for c in clients]
        s.stop()
        ids = list(firsts)
        for c in clients:
            try:
                while True:
                    reply = c.reply()
                    self.assertIsInstance(reply, int)
                    ids.append(reply)
            except (harness.Closed, ConnectionResetError):
                self.assertEqual(c.buf, b"", "half a reply")
        self.disjoint(ids)
        again = self.client(self.hilod(data=s.data))
        self.assertGreater(again.call("INCR", "e"), max(ids))

    def test_the_log_of_the_database_stays_small(self):
        s = self.hilod()
        c = self.client(s)
        c.call("SEQ", "CREATE", "e", "DURABILITY", "each")
        rounds = 100 if os.environ.get("HILO_LONG") != "1" else 1000
        for i in range(rounds):
            c.send(Client.encode("INCR", "e") * 1000)
            self.assertEqual([c.reply() for _ in range(1000)][-1], 1000 * (i + 1))
        wal = os.path.getsize(os.path.join(s.data, "hilo.db-wal"))
        self.assertLess(wal, 6 << 20)
        self.assertGreater(int(c.info("store")["commits"]), rounds)

    def test_boot_ids_count_the_starts(self):
        a = self.hilod()
        first = self.client(a).info()
        a.stop()
        second = self.client(self.hilod(data=a.data)).info()
        self.assertEqual(first["store_uuid"], second["store_uuid"])
        self.assertEqual([i["boot_id"].split("-")[0] for i in (first, second)], ["1", "2"])


if __name__ == "__main__":
    harness.main()
