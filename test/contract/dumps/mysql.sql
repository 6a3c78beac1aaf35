ALTER DATABASE app CHARACTER SET latin1 COLLATE latin1_general_cs;
CREATE DATABASE `Weird "DB' `` % ☃`;
CREATE DATABASE without_tables;
CREATE ROLE readers;
GRANT SELECT ON app.* TO readers;
CREATE USER 'o''brien'@'10.%' IDENTIFIED BY 'of o\'brien';
GRANT readers TO 'o''brien'@'10.%';
GRANT SELECT, CREATE VIEW ON *.* TO app;

USE app;
CREATE TABLE every (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, bits BIT(9), blobs LONGBLOB, fixed BINARY(4), content LONGTEXT CHARACTER SET utf8mb4,
  old TEXT CHARACTER SET latin1, json JSON, mood ENUM('sad', 'it''s', ''), flags SET('a', 'b'), number DECIMAL(65, 30), real8 DOUBLE,
  at TIMESTAMP(6) NULL, local DATETIME(6), day DATE, year YEAR, place GEOMETRY, big BIGINT UNSIGNED,
  following INT AS (year + 1) VIRTUAL, exclaimed VARCHAR(20) AS (CONCAT(mood, mood)) STORED, by_default VARCHAR(10) DEFAULT 'it''s',
  UNIQUE KEY `ke``y` (big, mood DESC), FULLTEXT KEY (content), CHECK (big <> 13)
) AUTO_INCREMENT = 100 COMMENT = 'first line
\\! touch /tmp/ran
-- Dump completed';
INSERT INTO every (id, bits, blobs, fixed, content, old, json, mood, flags, number, real8, at, local, day, year, place, big) VALUES
  (0, b'101010101', UNHEX('000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff'), 'a', '\\! touch /tmp/ran\n\t\0\Z\\ ''"`; DROP TABLE every; -- é 😀', 'é', '{"a": ["\\u0001", "\\\\", 1e300]}', 'it''s', 'a,b',
   '-12345678901234567890123456789012345.123456789012345678901234567890', 1.7976931348623157e308, '2020-03-29 01:30:00.123456', '9999-12-31 23:59:59.999999', '0001-01-01', 1901, ST_GeomFromText('POINT(1 2)'), 18446744073709551615),
  (7, NULL, '', '', '
-- Dump completed
', NULL, 'null', '', '', -0, 0, NULL, NULL, NULL, NULL, NULL, NULL);
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'; UPDATE every SET id = 0 WHERE id = 7; SET sql_mode = DEFAULT;
CREATE TABLE large (it LONGBLOB);
INSERT INTO large VALUES (REPEAT(UNHEX('00ff27'), 4000000));
CREATE TABLE `new
line` (`co``l
umn` TEXT, `select` INT);
INSERT INTO `new
line` VALUES ('x', 1);
CREATE TABLE many (n INT PRIMARY KEY, digest CHAR(36)) PARTITION BY HASH (n) PARTITIONS 3;
INSERT INTO many WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 900) SELECT n, n * 7919 FROM counted;
CREATE TABLE unsafe (it INT) ENGINE = MyISAM;
INSERT INTO unsafe VALUES (1);
CREATE TABLE egg (id INT PRIMARY KEY, hen INT NOT NULL);
CREATE TABLE hen (id INT PRIMARY KEY, egg INT NOT NULL, FOREIGN KEY (egg) REFERENCES egg (id) ON DELETE CASCADE);
SET foreign_key_checks = 0;
INSERT INTO egg VALUES (1, 1); INSERT INTO hen VALUES (1, 1);
ALTER TABLE egg ADD FOREIGN KEY (hen) REFERENCES hen (id);
SET foreign_key_checks = 1;
CREATE VIEW z_first AS SELECT n, digest FROM many WHERE n < 100 WITH CHECK OPTION;
CREATE SQL SECURITY INVOKER VIEW a_second AS SELECT f.n, e.id FROM z_first AS f JOIN every AS e ON f.n = e.id + 1;
CREATE DEFINER = app@'%' VIEW of_user AS SELECT * FROM a_second;
CREATE TABLE log (it TEXT CHARACTER SET utf8mb4);
DELIMITER //
CREATE DEFINER = app@'%' TRIGGER of_many BEFORE INSERT ON many FOR EACH ROW BEGIN INSERT INTO log VALUES (CONCAT('it''s ;', NEW.n)); END//
CREATE TRIGGER of_many_too BEFORE INSERT ON many FOR EACH ROW FOLLOWS of_many SET @x = '//'//
CREATE FUNCTION shout(it TEXT CHARACTER SET utf8mb4) RETURNS TEXT CHARACTER SET utf8mb4 DETERMINISTIC RETURN CONCAT(UPPER(it), ';; 😀')//
CREATE DEFINER = app@'%' PROCEDURE `pro``cedure`(IN x INT, OUT y INT) COMMENT '
\\! touch /tmp/ran
' BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SET y = -1; SET y = x; /* `; */ END//
CREATE EVENT yearly ON SCHEDULE EVERY 1 YEAR STARTS '2099-01-01 00:00:00' DISABLE DO BEGIN DELETE FROM log; END//
DELIMITER ;
INSERT INTO many VALUES (-1, 'triggered');
SET sql_mode = 'ANSI_QUOTES';
CREATE PROCEDURE other_mode() SELECT "n" FROM "many";
SET sql_mode = DEFAULT;

USE `Weird "DB' `` % ☃`;
CREATE TABLE t (it INT);
INSERT INTO t VALUES (1);
